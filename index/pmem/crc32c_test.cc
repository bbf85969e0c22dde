#include "index/pmem/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace lodgekv::pmem {
namespace {

// The check value of CRC-32C (RFC 3720), whose seed and result are inverted.
TEST(Crc32cTest, IsCastagnoli) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(~Crc32c(~uint32_t{0}, digits.data(), digits.size()), 0xe3069283U);
}

// Short and long inputs use different code; pools must survive a change of the threshold.
TEST(Crc32cTest, IsTheSameWhereverItIsCut) {
  std::vector<unsigned char> bytes(3 * kShortCrcBytes + 5);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 167 + 13);
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const uint32_t whole = crc32_iscsi(bytes.data(), static_cast<int>(length), 77);
    EXPECT_EQ(Crc32c(77, bytes.data(), length), whole) << length << " bytes";
    for (const size_t cut : {length / 2, length / 3, length - length / 7}) {
      const uint32_t first = Crc32c(77, bytes.data(), cut);
      EXPECT_EQ(Crc32c(first, bytes.data() + cut, length - cut), whole) << cut << "/" << length;
    }
  }
}

TEST(Crc32cTest, OfWordsIsThatOfTheirBytes) {
  const uint64_t words[3] = {0x0123456789abcdef, 0, 0xfedcba9876543210};
  EXPECT_EQ(Crc32cOfWords(77, words[0], words[1], words[2]), Crc32c(77, words, sizeof(words)));
  EXPECT_EQ(Crc32cOfWords(78, words[2]), Crc32c(78, &words[2], sizeof(words[2])));
}

}  // namespace
}  // namespace lodgekv::pmem
