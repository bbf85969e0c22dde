#include "tests/crash/lab/isolated.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace lodgekv::test {
namespace {

[[noreturn]] void Child(int out, unsigned limit_seconds, const std::function<std::string()>& work) {
  const rlimit cpu{limit_seconds, limit_seconds + 1};
  setrlimit(RLIMIT_CPU, &cpu);
  const rlimit core{0, 0};
  setrlimit(RLIMIT_CORE, &core);
  // Its dying messages are expected and hidden.
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  const std::string report = work();
  const char* rest = report.data();
  size_t left = report.size();
  while (left > 0) {
    const ssize_t n = write(out, rest, left);
    if (n <= 0) _exit(3);
    rest += n;
    left -= static_cast<size_t>(n);
  }
  _exit(0);
}

}  // namespace

IsolatedResult RunIsolated(unsigned limit_seconds, const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    close(ends[0]);
    Child(ends[1], limit_seconds, work);
  }
  close(ends[1]);
  IsolatedResult result;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    result.report.append(buffer.data(), static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    result.death =
        absl::StrCat("ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  } else if (WEXITSTATUS(status) != 0) {
    result.death = absl::StrCat("ended with status ", WEXITSTATUS(status));
  }
  return result;
}

}  // namespace lodgekv::test
