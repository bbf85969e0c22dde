// What the service manager that started the daemon is told: systemd, where the unit is of
// Type=notify. Whoever else sets NOTIFY_SOCKET hears the same.
//
// INVARIANT  Without NOTIFY_SOCKET nothing here has an effect, and no failure to tell changes what
//            the daemon does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "server/rpc/server_state.h"

namespace lodgekv::server {

// Extends the time to start for as long as recovery goes forward, and says how far it is. A
// recovery that stands still is left to the time limit of the unit. Ends with the object.
class StartReporter {
 public:
  // `progress` is asked every `interval`, from a thread of the reporter's own.
  explicit StartReporter(std::function<Progress()> progress,
                         std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~StartReporter();
  StartReporter(const StartReporter&) = delete;
  StartReporter& operator=(const StartReporter&) = delete;

 private:
  void Run();

  const std::function<Progress()> progress_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;  // guarded by mutex_
  std::thread thread_;
};

// Clients are served at `address`.
void NotifyServing(const std::string& address);

// The configuration is read again; NotifyServing ends this.
void NotifyReloading();

// Requests are drained and the pool is closed, which may take longer than `drain`.
void NotifyStopping(std::chrono::milliseconds drain);

}  // namespace lodgekv::server
