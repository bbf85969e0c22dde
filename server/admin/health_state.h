// What health answers: for each name whether it serves. The names are "" (the daemon as a whole),
// those of the services, and one for each class of medium, which serves when the pool lies on it.
//
// INVARIANTS
// - The names are those of the begin; each is NOT_SERVING until it is set.
// - A watcher is told the latest answer about its name. How many there are is bounded.
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

// Told of each change, by whoever makes it; must not block, nor call HealthState.
class HealthWatcher {
 public:
  virtual ~HealthWatcher() = default;
  virtual void Tell(Health health) = 0;
};

// "lodgekv.medium.pmem-adr" for pmem-adr.
std::string MediumHealthName(std::string_view medium_class);

class HealthState {
 public:
  explicit HealthState(size_t max_watchers = 256);

  // Without effect for a name that is not known.
  void Set(std::string_view name, bool serving);

  // False: nobody can be let in, so that no name serves meanwhile, whatever is set.
  void SetReachable(bool reachable);

  // Nothing serves from here on, whatever is set.
  void StopServing();

  Health Get(std::string_view name) const;

  // Tells the watcher the answer now, then each change for as long as it lives. False: there are
  // max_watchers already.
  [[nodiscard]] bool Watch(std::string_view name, const std::shared_ptr<HealthWatcher>& watcher);

 private:
  struct Subscription {
    std::string name;
    std::weak_ptr<HealthWatcher> watcher;
  };
  using Watchers = std::vector<std::shared_ptr<HealthWatcher>>;

  void TellAll();
  Health Find(std::string_view name) const;
  Watchers WatchersOf(std::string_view name) const;

  const size_t max_watchers_;
  // Held while watchers are told, so that none hears an older answer behind a newer one.
  std::mutex telling_;
  mutable std::mutex mutex_;
  std::map<std::string, bool, std::less<>> serving_;  // guarded by mutex_
  bool stopped_ = false;                              // likewise
  bool reachable_ = true;                             // likewise
  std::vector<Subscription> subscriptions_;           // likewise
};

}  // namespace lodgekv::server
