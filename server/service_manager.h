// Notifications to the service manager that started the daemon: systemd, if the unit has
// Type=notify, or any other program that sets NOTIFY_SOCKET.
//
// INVARIANT  Without NOTIFY_SOCKET nothing here has an effect, and a failed notification does not
//            change what the daemon does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "server/rpc/server_state.h"

namespace lodgekv::server {

// Extends the start timeout while recovery makes progress, and reports the progress. A recovery
// without progress runs into the unit's timeout. Ends with the object.
class StartReporter {
 public:
  // `progress` is called every `interval`, from a thread of the reporter.
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

// The daemon serves clients at `address`.
void NotifyServing(const std::string& address);

// The configuration is being read again, until the next NotifyServing.
void NotifyReloading();

// The daemon drains requests and closes the pool, which may take longer than `drain`.
void NotifyStopping(std::chrono::milliseconds drain);

}  // namespace lodgekv::server
