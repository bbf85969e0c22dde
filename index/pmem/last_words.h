// The last message and the exit of a process, usable anywhere: in a signal handler, without
// allocation and formatting; and with a stderr that nobody reads, which it must not wait for.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace lodgekv::pmem {

inline constexpr size_t kLastPathBytes = 512;  // longer ones are truncated

class LastWords {
 public:
  void Add(std::string_view part) {
    const size_t n = std::min(part.size(), text_.size() - used_);
    std::memcpy(text_.data() + used_, part.data(), n);
    used_ += n;
  }
  void AddNumber(uint64_t number) {
    std::array<char, 20> digits;
    size_t at = digits.size();
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    Add({digits.data() + at, digits.size() - at});
  }
  [[noreturn]] void End(int exit_code) const {
    Say();
    _exit(exit_code);
  }
  // For programming errors: a core dump is useful.
  [[noreturn]] void Abort() const {
    Say();
    std::abort();
  }

 private:
  static constexpr int kPatienceMs = 1'000;

  // Only one thread of the process prints; others wait here until it ends the process.
  void Say() const {
    static constinit std::atomic<bool> spoken{false};
    if (spoken.exchange(true)) {
      for (;;) pause();
    }
    // Dropped if the reader does not consume earlier output.
    pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&out, 1, kPatienceMs) == 1) (void)!write(STDERR_FILENO, text_.data(), used_);
  }

  std::array<char, kLastPathBytes + 512> text_;
  size_t used_ = 0;
};

}  // namespace lodgekv::pmem
