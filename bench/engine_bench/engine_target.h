// An engine under test, in its store, called as the server calls it: spans of one operation, with
// reused results.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/engine_bench/target.h"
#include "index/store.h"

namespace lodgekv::bench {

// One engine, with options, in one key format.
struct Subject {
  std::string engine;
  std::map<std::string, std::string> engine_options;
  KeyFormat key_format = KeyFormat::kFixed64;
  KeyShape key_shape = KeyShape::kRandom16;  // `bytes` only
  bool inline_pairs = false;                 // `bytes` only
  uint32_t value_bytes = 8;                  // `bytes` only
  bool persistent = true;
  bool discards = false;

  TargetId Id() const;
};

// An engine of this build with its default options. NotFound, InvalidArgument: the message names
// what there is.
absl::StatusOr<Subject> FindSubject(std::string_view engine, std::string_view key_format);

// Shared by all subjects of a run.
struct StoreSettings {
  uint64_t pool_size_bytes = 0;
  bool process_durability = false;
  bool allow_volatile_medium = false;
};

StoreOptions StoreOptionsFor(const Subject& subject, const StoreSettings& settings,
                             const std::string& pool_path);

class EngineTarget final : public Target {
 public:
  // Creates the pool; AlreadyExists if there is one. `capacity` as in KeyWriter. `load`, if not
  // null: the initial pairs.
  static absl::StatusOr<std::unique_ptr<EngineTarget>> Create(const Subject& subject,
                                                              const StoreSettings& settings,
                                                              const std::string& pool_path,
                                                              uint64_t seed, uint64_t capacity,
                                                              const BulkLoad* load = nullptr);
  // Uses a store that is already open.
  EngineTarget(const Subject& subject, std::unique_ptr<Store> store, uint64_t seed,
               uint64_t capacity);

  const TargetId& id() const override { return id_; }
  const KeyWriter& key_writer() const override { return key_writer_; }
  uint32_t value_bytes() const override { return subject_.value_bytes; }
  bool discards() const override { return subject_.discards; }
  MemoryUse GetMemoryUse() const override { return store_->engine().GetMemoryUse(); }
  void VisitCounters(CounterVisitor visitor) const override {
    store_->engine().VisitCounters(visitor);
  }
  Tally Run(const OpBatch& batch, LatencyProbe* probe) override;

  Store& store() { return *store_; }

 private:
  const Subject subject_;
  const TargetId id_;
  const KeyWriter key_writer_;
  std::unique_ptr<Store> store_;
};

// Closes the store of a target with a pool of its own, and removes the pool's files.
absl::Status CloseOwnPool(EngineTarget& target, const std::string& pool_path, bool keep_pool);

}  // namespace lodgekv::bench
