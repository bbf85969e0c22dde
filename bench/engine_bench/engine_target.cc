#include "bench/engine_bench/engine_target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "index/key_format_name.h"

namespace lodgekv::bench {
namespace {

template <class Keys>
class EngineOps {
 public:
  EngineOps(Engine& engine, const OpBatch& batch)
      : engine_(engine),
        keys_(batch),
        numbers_(batch.numbers.data()),
        generation_(batch.generation),
        value_(batch.value_bytes, 'v') {
    // A short value has only the first bytes of the word.
    word_bytes_ = std::min<size_t>(value_.size(), sizeof(uint64_t));
    word_mask_ = word_bytes_ == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * word_bytes_)) - 1;
  }

  void Put(size_t i) {
    const uint64_t word = ValueWord(numbers_[i], generation_);
    std::memcpy(value_.data(), &word, word_bytes_);
    write_.kind = WriteKind::kPut;
    write_.key = keys_.Key(i);
    write_.value = value_;
    tally_.Count(engine_.Write({&write_, 1}, {&written_, 1}, {}));
  }

  void Read(size_t i) {
    const std::string_view key = keys_.Key(i);
    tally_.Count(engine_.Read({&key, 1}, {&read_, 1}, {}));
    if (!read_.found) return;
    ++tally_.found;
    if (!IsValue(numbers_[i], read_.value)) ++tally_.wrong_values;
  }

  void Delete(size_t i) {
    write_.kind = WriteKind::kDelete;
    write_.key = keys_.Key(i);
    tally_.Count(engine_.Write({&write_, 1}, {&written_, 1}, {}));
    if (written_.found) ++tally_.found;
  }

  void Scan(size_t i) {
    const ScanOptions options{.start = keys_.Key(i), .end = std::nullopt, .limit = kScanItems};
    uint64_t items = 0;
    const auto visit = [&](const ScanItem& item) {
      if (items++ == 0 && item.key == options.start) {
        ++tally_.found;
        if (!IsValue(numbers_[i], item.value)) ++tally_.wrong_values;
      }
      if (item.value.size() != value_.size()) ++tally_.wrong_values;
      return true;
    };
    tally_.Count(engine_.Scan(options, visit));
    tally_.items += items;
  }

  const Tally& tally() const { return tally_; }

 private:
  bool IsValue(uint64_t number, std::string_view value) const {
    uint64_t word = 0;
    if (value.size() != value_.size()) return false;
    std::memcpy(&word, value.data(), word_bytes_);
    return IsValueOf(number & word_mask_, word);
  }

  Engine& engine_;
  Keys keys_;
  const uint64_t* numbers_;
  const uint8_t generation_;
  std::string value_;
  size_t word_bytes_ = 0;
  uint64_t word_mask_ = 0;
  WriteOp write_;
  WriteResult written_;
  ReadResult read_;
  Tally tally_;
};

template <class Keys>
Tally RunOnEngine(Engine& engine, const OpBatch& batch, LatencyProbe* probe) {
  EngineOps<Keys> ops(engine, batch);
  NoProbe none;
  if (probe == nullptr) {
    RunBatch(ops, batch, none);
  } else {
    RunBatch(ops, batch, *probe);
  }
  return ops.tally();
}

[[noreturn]] void EndAfterMediumFailure(const std::string& what) {
  std::fprintf(stderr, "engine_bench: %s\n", what.c_str());
  std::_Exit(1);
}

}  // namespace

TargetId Subject::Id() const {
  TargetId id;
  id.engine = engine;
  id.engine_options = absl::StrJoin(engine_options, ":", absl::PairFormatter("="));
  if (inline_pairs)
    absl::StrAppend(&id.engine_options, id.engine_options.empty() ? "" : ":", "inline_pairs");
  id.key_format = KeyFormatName(key_format);
  id.key_shape = key_format == KeyFormat::kFixed64 ? "integer" : KeyShapeName(key_shape);
  return id;
}

StoreOptions StoreOptionsFor(const Subject& subject, const StoreSettings& settings,
                             const std::string& pool_path) {
  StoreOptions options;
  options.engine = subject.engine;
  if (subject.persistent) {
    options.pool_path = pool_path;
    options.pool_size_bytes = settings.pool_size_bytes;
  }
  options.key_format = subject.key_format;
  options.inline_pairs = subject.inline_pairs;
  options.process_durability = settings.process_durability;
  options.allow_volatile_medium = settings.allow_volatile_medium;
  options.engine_options = subject.engine_options;
  options.on_medium_failure = EndAfterMediumFailure;
  return options;
}

absl::StatusOr<std::unique_ptr<EngineTarget>> EngineTarget::Create(const Subject& subject,
                                                                   const StoreSettings& settings,
                                                                   const std::string& pool_path,
                                                                   uint64_t seed, uint64_t capacity,
                                                                   const BulkLoad* load) {
  StoreOptions options = StoreOptionsFor(subject, settings, pool_path);
  if (load != nullptr) options.bulk_load = *load;
  auto store = Store::Open(options);
  if (!store.ok()) return store.status();
  if (subject.persistent && !(*store)->info().created) {
    return absl::AlreadyExistsError(
        absl::StrCat("pool ", pool_path,
                     " holds data already; engine_bench measures from an empty "
                     "pool that it makes itself: name another --pool"));
  }
  return std::make_unique<EngineTarget>(subject, *std::move(store), seed, capacity);
}

EngineTarget::EngineTarget(const Subject& subject, std::unique_ptr<Store> store, uint64_t seed,
                           uint64_t capacity)
    : subject_(subject),
      id_(subject.Id()),
      key_writer_(subject.key_format, subject.key_shape, seed, capacity),
      store_(std::move(store)) {}

Tally EngineTarget::Run(const OpBatch& batch, LatencyProbe* probe) {
  if (subject_.key_format == KeyFormat::kFixed64) {
    return RunOnEngine<Fixed64Keys>(store_->engine(), batch, probe);
  }
  return RunOnEngine<BytesKeys>(store_->engine(), batch, probe);
}

absl::Status CloseOwnPool(EngineTarget& target, const std::string& pool_path, bool keep_pool) {
  const absl::Status closed = target.store().Close();
  std::error_code ignored;
  if (!keep_pool && std::filesystem::is_regular_file(pool_path, ignored)) {
    std::filesystem::remove(pool_path, ignored);
  }
  return closed;
}

}  // namespace lodgekv::bench
