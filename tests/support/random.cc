#include "tests/support/random.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lodgekv::test {
namespace {

constexpr uint64_t kDefaultSeed = 20'260'717;

// The number in an environment variable, or `otherwise`; a malformed one ends the program, since
// running with another seed than requested would mislead.
template <class Number>
Number FromEnvironment(const char* name, Number otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  Number value{};
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end) {
    std::fprintf(stderr, "%s is '%s'; it must be a number\n", name, text);
    std::exit(2);
  }
  return value;
}

}  // namespace

uint64_t TestSeed() {
  static const uint64_t seed = FromEnvironment("LODGEKV_TEST_SEED", kDefaultSeed);
  return seed;
}

std::string SeedNote() { return "repeat with LODGEKV_TEST_SEED=" + std::to_string(TestSeed()); }

uint64_t Scaled(uint64_t operations) {
  static const double scale = FromEnvironment("LODGEKV_TEST_SCALE", 1.0);
  const double scaled = static_cast<double>(operations) * scale / kSanitizerSlowdown;
  return std::max<uint64_t>(1, static_cast<uint64_t>(scaled));
}

uint64_t MixBits(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

Random::Random(std::string_view stream, uint64_t index) {
  uint64_t seed = MixBits(TestSeed()) ^ index;
  for (const char c : stream) seed = MixBits(seed ^ static_cast<unsigned char>(c));
  generator_.seed(seed);
}

}  // namespace lodgekv::test
