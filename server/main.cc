// lodgekvd: puts the parts together.
#include <pthread.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <variant>

#include "base/lock_order.h"
#include "server/base/grpc_log.h"
#include "server/base/log.h"
#include "server/config/command_line.h"
#include "server/config/config.h"
#include "server/front_door/descriptors.h"
#include "server/hardening.h"
#include "server/lifecycle.h"
#include "server/service_manager.h"
#include "server/thread_supply.h"

namespace {

using lodgekv::server::Config;
using lodgekv::server::ConfigSources;
using lodgekv::server::Daemon;
using lodgekv::server::ExitNow;
using lodgekv::server::FlushLog;
using lodgekv::server::kExitFailure;
using lodgekv::server::kExitPoolGone;
using lodgekv::server::Log;
using lodgekv::server::LogLevel;
using lodgekv::server::NotifyReloading;
using lodgekv::server::NotifyServing;
using lodgekv::server::NotifyStopping;
using lodgekv::server::RunNow;
using lodgekv::server::StartReporter;

// While the configuration is read, which may be a pipe, there is nothing to close yet: a signal to
// stop ends the process. A signal to reload is held back.
void BlockReload() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Blocked in every thread, so that only AwaitStop receives them; one that arrives during recovery
// waits until the pool is open and can be closed cleanly.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Reloads at each SIGHUP, returns at a signal to stop.
void AwaitStop(const sigset_t& signals, const ConfigSources& sources, Daemon& daemon) {
  int signal = 0;
  for (sigwait(&signals, &signal); signal == SIGHUP; sigwait(&signals, &signal)) {
    NotifyReloading();
    daemon.Reload(sources);
    NotifyServing(daemon.data_address());
  }
  Log(LogLevel::kInfo, "stopping", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  // A second signal to stop ends the process at once; the pool is then recovered at the next start.
  // SIGHUP stays blocked: it must not interrupt the drain.
  sigset_t stops = signals;
  sigdelset(&stops, SIGHUP);
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
}

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, std::string(status.message()));
  return kExitFailure;
}

// No destructor may touch the rest of the pool.
[[noreturn]] void EndWithoutPool(const absl::Status& status) {
  Log(LogLevel::kError, "stopped without a clean shutdown: the pool is gone",
      {{"what", std::string(status.message())}});
  FlushLog();
  std::_Exit(kExitPoolGone);
}

absl::Status OpenStore(Daemon& daemon) {
  const StartReporter reporter([&daemon] { return daemon.state().progress(); });
  return daemon.OpenStore();
}

int Serve(const RunNow& run, const sigset_t& signals) {
  absl::Status status = lodgekv::server::CheckThreadSupply(run.loaded.config);
  if (!status.ok()) return Fail(status);
  Daemon daemon(run.loaded.config);
  status = daemon.Listen();
  if (status.ok()) status = OpenStore(daemon);
  if (!status.ok()) return Fail(status);
  NotifyServing(daemon.data_address());
  AwaitStop(signals, run.sources, daemon);
  const Config& config = daemon.state().config();
  NotifyStopping(std::chrono::milliseconds(config.drain_delay_ms + config.drain_grace_ms));
  status = daemon.Stop();
  if (daemon.state().pool_gone()) EndWithoutPool(status);
  return status.ok() ? EXIT_SUCCESS : Fail(status);
}

int Run(int argc, char** argv) {
  lodgekv::SkipLockOrderCheck();
  BlockReload();
  lodgekv::server::RaiseDescriptorLimit();
  auto outcome = lodgekv::server::ReadCommandLine(argc, argv, environ);
  if (const auto* exit_now = std::get_if<ExitNow>(&outcome)) {
    std::fputs(exit_now->warnings.c_str(), stderr);
    std::fputs(exit_now->text.c_str(), exit_now->code == 0 ? stdout : stderr);
    return exit_now->code;
  }
  const sigset_t signals = BlockSignals();
  const auto& run = std::get<RunNow>(outcome);
  const Config& config = run.loaded.config;
  if (!config.core_dumps) lodgekv::server::ForbidCoreDumps();
  lodgekv::server::SetUpLog(config.log_format, config.log_level);
  lodgekv::server::AdoptGrpcLog();
  for (const std::string& warning : run.loaded.warnings) Log(LogLevel::kWarning, warning);
  return Serve(run, signals);
}

// For exceptions that were not caught, in particular in a library's thread. The pool is left as
// after a crash.
[[noreturn]] void DieOfException() {
  std::string what = "an error that is no exception";
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
    what = "an exception of an unknown type";
  }
  Log(LogLevel::kCritical, "terminated by an unhandled error", {{"what", what}});
  FlushLog();
  std::_Exit(kExitFailure);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(DieOfException);
  // The reader of the log may have exited.
  std::signal(SIGPIPE, SIG_IGN);
  int exit_code = kExitFailure;
  try {
    exit_code = Run(argc, argv);
  } catch (const std::exception& error) {
    exit_code = Fail(absl::InternalError(fmt::format("ended by an error: {}", error.what())));
  }
  FlushLog();
  return exit_code;
}
