// Common parts of all fuzz targets.
//
// INVARIANTS
// - A target defines LLVMFuzzerTestOneInput. An input ends the process only by FUZZ_REQUIRE, or by
//   a sanitizer: each means a defect of the code under test.
// - A target is a function of its input: no input affects later ones.
// - LODGEKV_PLANTED_BUG=1 inserts one realistic mistake between the target and the code under test
//   (or enables a canary of that code). No input of the corpus shows it; the target must find one
//   that does (fuzz_test.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Ends the process and prints what is violated, and where.
#define FUZZ_REQUIRE(condition, detail)                                                     \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::lodgekv::fuzz::Fail(__FILE__, __LINE__, #condition, ::lodgekv::fuzz::View(detail)); \
  } while (false)

namespace lodgekv::fuzz {

[[noreturn]] inline void Fail(const char* file, int line, const char* condition,
                              std::string_view detail) {
  std::fprintf(stderr, "%s:%d: does not hold: %s: %.*s\n", file, line, condition,
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

// Abseil's views are a separate type.
inline std::string_view View(std::string_view text) { return text; }
inline std::string_view View(absl::string_view text) { return {text.data(), text.size()}; }
inline std::string_view View(const std::string& text) { return text; }
inline std::string_view View(const char* text) { return text; }

inline bool BugIsPlanted() {
  static const bool planted = std::getenv("LODGEKV_PLANTED_BUG") != nullptr;
  return planted;
}

// Whether the text is readable in one line of a terminal.
template <class Text>
bool IsOnePrintableLine(const Text& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return !text.empty();
}

// Consumes an input from its front. After its end everything is zero and empty.
class InputReader {
 public:
  InputReader(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte() { return static_cast<uint8_t>(Number(1)); }
  uint64_t Word() { return Number(8); }
  // Little-endian, of `bytes` bytes.
  uint64_t Number(size_t bytes) {
    uint64_t number = 0;
    const std::string_view text = Take(bytes);
    std::memcpy(&number, text.data(), text.size());
    return number;
  }
  std::string_view Take(size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  // A length byte, then the bytes.
  std::string_view Text(size_t most = 255) {
    const size_t length = Byte();
    return Take(length < most ? length : most);
  }
  std::string_view Rest() { return Take(rest_.size()); }

 private:
  std::string_view rest_;
};

}  // namespace lodgekv::fuzz
