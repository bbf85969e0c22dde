#include "server/rpc/server_state.h"

#include <utility>

namespace lodgekv::server {

void ServerState::Adopt(const Config& config) {
  all_settings_.push_back(std::make_unique<const Settings>(
      Settings{.config = config, .limits = config.RequestLimits()}));
  settings_.store(all_settings_.back().get(), std::memory_order_release);
  admission_.SetLimits(config.RequestLimits());
}

void ServerState::Serve(Store& store) {
  const StoreInfo& info = store.info();
  pool_ = {.key_format = info.key_format, .inline_pairs = info.inline_pairs};
  long_fences_ = info.long_fences;
  store_.store(&store, std::memory_order_release);
  Phase expected = Phase::kRecovering;
  phase_.compare_exchange_strong(expected, Phase::kServing, std::memory_order_acq_rel);
}

void ServerState::SetProgress(Progress progress) {
  const std::lock_guard lock(mutex_);
  progress_ = std::move(progress);
}

Progress ServerState::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

}  // namespace lodgekv::server
