#include "server/service_manager.h"

#include <spdlog/fmt/fmt.h>
#include <systemd/sd-daemon.h>

#include <cstdlib>
#include <utility>

namespace lodgekv::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// For one step of recovery, or for closing the pool after the drain.
constexpr std::chrono::minutes kStepTimeout{5};

void Notify(const std::string& state) { (void)sd_notify(0, state.c_str()); }

std::string Extension(microseconds from_now) {
  return fmt::format("EXTEND_TIMEOUT_USEC={}", from_now.count());
}

std::string Describe(const Progress& progress) {
  return fmt::format("{} {}/{}", progress.phase, progress.done, progress.total);
}

}  // namespace

StartReporter::StartReporter(std::function<Progress()> progress, milliseconds interval)
    : progress_(std::move(progress)), interval_(interval) {
  if (std::getenv("NOTIFY_SOCKET") != nullptr) thread_ = std::thread([this] { Run(); });
}

StartReporter::~StartReporter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void StartReporter::Run() {
  std::string told = Describe(Progress());
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, interval_, [this] { return end_; })) {
    const std::string now = Describe(progress_());
    if (now == told) continue;
    told = now;
    Notify(fmt::format("{}\nSTATUS=recovering: {}", Extension(kStepTimeout), now));
  }
}

void NotifyServing(const std::string& address) {
  Notify(fmt::format("READY=1\nSTATUS=serving {}", address));
}

void NotifyReloading() { Notify("RELOADING=1\nSTATUS=reading the configuration again"); }

void NotifyStopping(milliseconds drain) {
  Notify(fmt::format("STOPPING=1\n{}\nSTATUS=draining", Extension(drain + kStepTimeout)));
}

}  // namespace lodgekv::server
