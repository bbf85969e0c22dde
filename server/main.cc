// lodgekvd: assembly only.
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "server/command_line.h"
#include "server/config.h"
#include "server/lifecycle.h"
#include "server/log.h"

namespace {

using lodgekv::server::Config;
using lodgekv::server::Daemon;
using lodgekv::server::ExitNow;
using lodgekv::server::kExitFailure;
using lodgekv::server::LoadedConfig;
using lodgekv::server::Log;
using lodgekv::server::LogLevel;

// Blocked in every thread from the start, so that only AwaitSignal takes them; one that comes
// during recovery waits until the pool is open and can be closed clean.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void AwaitSignal(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  Log(LogLevel::kInfo, "stopping", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  // A second one ends the process at once; the pool is then recovered at the next start.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, std::string(status.message()));
  return kExitFailure;
}

int Run(const Config& config, const sigset_t& signals) {
  Daemon daemon(config);
  absl::Status status = daemon.Listen();
  if (status.ok()) status = daemon.OpenStore();
  if (!status.ok()) return Fail(status);
  AwaitSignal(signals);
  status = daemon.Stop();
  return status.ok() ? EXIT_SUCCESS : Fail(status);
}

}  // namespace

int main(int argc, char** argv) {
  const sigset_t signals = BlockSignals();
  auto outcome = lodgekv::server::ReadCommandLine(argc, argv, environ);
  if (const auto* exit_now = std::get_if<ExitNow>(&outcome)) {
    std::fputs(exit_now->text.c_str(), exit_now->code == 0 ? stdout : stderr);
    return exit_now->code;
  }
  const auto& loaded = std::get<LoadedConfig>(outcome);
  lodgekv::server::SetUpLog(loaded.config.log_format, loaded.config.log_level);
  lodgekv::server::AdoptGrpcLog();
  for (const std::string& warning : loaded.warnings) Log(LogLevel::kWarning, warning);
  return Run(loaded.config, signals);
}
