#include "client/lodgectl/interruption.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace lodgekv::lodgectl {
namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

volatile std::sig_atomic_t g_signal = 0;
std::array<int, 2> g_pipe{-1, -1};  // written to by the handler
std::array<struct sigaction, kSignals.size()> g_before;

void OnSignal(int number) {
  g_signal = number;
  (void)!write(g_pipe[1], "!", 1);
}

}  // namespace

Interruption::Interruption() {
  if (pipe2(g_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &g_before[i]);
}

Interruption::~Interruption() {
  if (g_pipe[0] < 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &g_before[i], nullptr);
  for (int& end : g_pipe) {
    close(end);
    end = -1;
  }
}

int Interruption::signal() const { return g_signal; }

int Interruption::fd() const { return g_pipe[0]; }

}  // namespace lodgekv::lodgectl
