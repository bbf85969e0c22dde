#include "server/admin/health_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lodgekv/v1/admin.grpc.pb.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::server {
namespace {

// The values of StoreInfo::medium_class.
constexpr std::array<std::string_view, 7> kMediumClasses{"pmem-adr",    "pmem-eadr", "cxl", "file",
                                                         "pmem-forced", "volatile",  "none"};

}  // namespace

std::string MediumHealthName(std::string_view medium_class) {
  return "lodgekv.medium." + std::string(medium_class);
}

HealthState::HealthState(size_t max_watchers_per_port)
    : max_watchers_per_port_(max_watchers_per_port) {
  serving_[""] = false;
  serving_[v1::KvService::service_full_name()] = false;
  serving_[v1::AdminService::service_full_name()] = false;
  serving_[std::string(kRecoveryHealthName)] = false;
  for (const std::string_view name : kMediumClasses) serving_[MediumHealthName(name)] = false;
}

void HealthState::Set(std::string_view name, bool serving) {
  const std::lock_guard notifying(notifying_);
  Watchers watchers;
  Health health = Health::kUnknownName;
  {
    const std::lock_guard lock(mutex_);
    const auto found = serving_.find(name);
    if (found == serving_.end()) return;
    found->second = serving;
    health = Find(name);
    watchers = WatchersOf(name);
  }
  for (const auto& watcher : watchers) watcher->Notify(health);
}

void HealthState::SetReachable(bool reachable) {
  {
    const std::lock_guard lock(mutex_);
    reachable_ = reachable;
  }
  NotifyAll();
}

void HealthState::StopServing() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  NotifyAll();
}

// After a change that affects every name.
void HealthState::NotifyAll() {
  const std::lock_guard notifying(notifying_);
  std::vector<std::pair<std::shared_ptr<HealthWatcher>, Health>> told;
  {
    const std::lock_guard lock(mutex_);
    for (const Subscription& subscription : subscriptions_) {
      if (auto watcher = subscription.watcher.lock()) {
        told.emplace_back(std::move(watcher), Find(subscription.name));
      }
    }
  }
  for (const auto& [watcher, health] : told) watcher->Notify(health);
}

Health HealthState::Get(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return Find(name);
}

bool HealthState::Watch(size_t port, std::string_view name,
                        const std::shared_ptr<HealthWatcher>& watcher) {
  const std::lock_guard notifying(notifying_);
  Health health = Health::kUnknownName;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(subscriptions_,
                  [](const Subscription& subscription) { return subscription.watcher.expired(); });
    const auto of_port = std::count_if(
        subscriptions_.begin(), subscriptions_.end(),
        [port](const Subscription& subscription) { return subscription.port == port; });
    if (static_cast<size_t>(of_port) >= max_watchers_per_port_) return false;
    subscriptions_.push_back({port, std::string(name), watcher});
    health = Find(name);
  }
  watcher->Notify(health);
  return true;
}

Health HealthState::Find(std::string_view name) const {
  const auto found = serving_.find(name);
  if (found == serving_.end()) return Health::kUnknownName;
  return found->second && reachable_ && !stopped_ ? Health::kServing : Health::kNotServing;
}

HealthState::Watchers HealthState::WatchersOf(std::string_view name) const {
  Watchers watchers;
  for (const Subscription& subscription : subscriptions_) {
    if (subscription.name != name) continue;
    if (auto watcher = subscription.watcher.lock()) watchers.push_back(std::move(watcher));
  }
  return watchers;
}

}  // namespace lodgekv::server
