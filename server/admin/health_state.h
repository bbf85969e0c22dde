// The answers of health: for each name whether it serves. The names are "" (the daemon as a whole),
// those of the services, one for each class of medium, which serves if the pool lies on it, and one
// for recovery, which serves once nothing of that is left for the background.
//
// INVARIANTS
// - The set of names never changes; each is NOT_SERVING until it is set.
// - A watcher gets the latest answer for its name. The number of watchers of a port is bounded, and
//   those of one port take no place from those of another: clients of the data port, whom nobody
//   need trust, cannot keep out the probes.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lodgekv::server {

enum class Health { kServing, kNotServing, kUnknownName };

// Notified of each change by the thread that makes it; must not block, nor call HealthState.
class HealthWatcher {
 public:
  virtual ~HealthWatcher() = default;
  virtual void Notify(Health health) = 0;
};

// "lodgekv.medium.pmem-adr" for pmem-adr.
std::string MediumHealthName(std::string_view medium_class);

inline constexpr std::string_view kRecoveryHealthName = "lodgekv.recovery";

class HealthState {
 public:
  explicit HealthState(size_t max_watchers_per_port = 256);

  // The number of a port, for its watchers.
  size_t AddPort() { return ports_++; }

  // Without effect for an unknown name.
  void Set(std::string_view name, bool serving);

  // False: no connection can be admitted, so no name serves meanwhile, whatever is set.
  void SetReachable(bool reachable);

  // From now on nothing serves, whatever is set.
  void StopServing();

  Health Get(std::string_view name) const;

  // Gives the watcher the answer now, then each change for as long as it lives. False: the port has
  // max_watchers_per_port already.
  [[nodiscard]] bool Watch(size_t port, std::string_view name,
                           const std::shared_ptr<HealthWatcher>& watcher);

 private:
  struct Subscription {
    size_t port;
    std::string name;
    std::weak_ptr<HealthWatcher> watcher;
  };
  using Watchers = std::vector<std::shared_ptr<HealthWatcher>>;

  void NotifyAll();
  Health Find(std::string_view name) const;
  Watchers WatchersOf(std::string_view name) const;

  const size_t max_watchers_per_port_;
  std::atomic<size_t> ports_{0};
  // Held while watchers are notified, so that none gets an older answer after a newer one.
  std::mutex notifying_;
  mutable std::mutex mutex_;
  std::map<std::string, bool, std::less<>> serving_;  // guarded by mutex_
  bool stopped_ = false;                              // likewise
  bool reachable_ = true;                             // likewise
  std::vector<Subscription> subscriptions_;           // likewise
};

}  // namespace lodgekv::server
