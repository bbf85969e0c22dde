// The answers of health: for each name whether it serves. The names are "" (the daemon as a whole),
// those of the services, and one for each class of medium, which serves if the pool lies on it.
//
// INVARIANTS
// - The set of names never changes; each is NOT_SERVING until it is set.
// - A watcher gets the latest answer for its name. The number of watchers is bounded.
#pragma once

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

class HealthState {
 public:
  explicit HealthState(size_t max_watchers = 256);

  // Without effect for an unknown name.
  void Set(std::string_view name, bool serving);

  // False: no connection can be admitted, so no name serves meanwhile, whatever is set.
  void SetReachable(bool reachable);

  // From now on nothing serves, whatever is set.
  void StopServing();

  Health Get(std::string_view name) const;

  // Gives the watcher the answer now, then each change for as long as it lives. False: there are
  // max_watchers already.
  [[nodiscard]] bool Watch(std::string_view name, const std::shared_ptr<HealthWatcher>& watcher);

 private:
  struct Subscription {
    std::string name;
    std::weak_ptr<HealthWatcher> watcher;
  };
  using Watchers = std::vector<std::shared_ptr<HealthWatcher>>;

  void NotifyAll();
  Health Find(std::string_view name) const;
  Watchers WatchersOf(std::string_view name) const;

  const size_t max_watchers_;
  // Held while watchers are notified, so that none gets an older answer after a newer one.
  std::mutex notifying_;
  mutable std::mutex mutex_;
  std::map<std::string, bool, std::less<>> serving_;  // guarded by mutex_
  bool stopped_ = false;                              // likewise
  bool reachable_ = true;                             // likewise
  std::vector<Subscription> subscriptions_;           // likewise
};

}  // namespace lodgekv::server
