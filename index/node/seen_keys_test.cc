#include "index/node/seen_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lodgekv {
namespace {

size_t FirstRepeatedOf(const std::vector<std::string>& keys, uint16_t modulus) {
  return FirstRepeated(
      keys.size(),
      [&](size_t i) { return static_cast<uint16_t>(std::hash<std::string>()(keys[i]) % modulus); },
      [&](size_t i) { return keys[i]; });
}

TEST(SeenKeysTest, AKeyIsSeenWhenItIsAddedAgain) {
  const std::string keys[] = {"a", "b", "a", "c", "b", "a"};
  const size_t first[] = {SeenKeys::kNone, SeenKeys::kNone, 0, SeenKeys::kNone, 1, 0};
  SeenKeys seen(std::size(keys));
  for (size_t i = 0; i < std::size(keys); ++i) {
    // All with the same hash.
    EXPECT_EQ(seen.Add(UINT16_MAX, i, [&](size_t j) { return keys[j] == keys[i]; }), first[i]);
  }
}

TEST(SeenKeysTest, TheFirstKeyThatIsRepeatedIsFound) {
  EXPECT_EQ(FirstRepeatedOf({}, 1), SeenKeys::kNone);
  EXPECT_EQ(FirstRepeatedOf({"a"}, 1), SeenKeys::kNone);
  EXPECT_EQ(FirstRepeatedOf({"a", "b", "c", "b", "a"}, 1), 0u);
  EXPECT_EQ(FirstRepeatedOf({"x", "b", "c", "c", "b"}, 2), 1u);
  // Whichever is repeated last, and whatever follows.
  EXPECT_EQ(FirstRepeatedOf({"x", "b", "c", "b", "c", "d"}, 2), 1u);
}

TEST(SeenKeysTest, ManyDifferentKeysAreDifferent) {
  for (const uint16_t modulus : {uint16_t{1}, uint16_t{7}, uint16_t{65535}}) {
    std::vector<std::string> keys;
    for (int i = 0; i < 1500; ++i) keys.push_back(std::to_string(i));
    EXPECT_EQ(FirstRepeatedOf(keys, modulus), SeenKeys::kNone);
    keys.push_back("1499");
    EXPECT_EQ(FirstRepeatedOf(keys, modulus), 1499u);
  }
}

}  // namespace
}  // namespace lodgekv
