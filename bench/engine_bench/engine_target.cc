#include "bench/engine_bench/engine_target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/engine_bench/pool_files.h"
#include "bench/engine_bench/workload.h"
#include "index/key_format_name.h"
#include "index/registry.h"

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
        value_(batch.value_bytes, 'v'),
        group_options_{.atomic = batch.group.atomic} {
    // Of a short value only the first bytes of the word are there.
    word_bytes_ = std::min<size_t>(value_.size(), sizeof(uint64_t));
    word_mask_ = word_bytes_ == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * word_bytes_)) - 1;
    write_.value = value_;
  }

  void Put(size_t i) {
    WriteValue(i, &value_);
    write_.kind = WriteKind::kPut;
    write_.key = keys_.Key(i, &room_);
    tally_.Count(engine_.Write({&write_, 1}, {&written_, 1}, options_));
  }

  void Read(size_t i) {
    const std::string_view key = keys_.Key(i, &room_);
    tally_.Count(engine_.Read({&key, 1}, {&read_, 1}, {}));
    if (read_.found) CountValue(Error(numbers_[i], read_.value));
  }

  void ReadChained(size_t i) {
    const std::string_view key = keys_.Key(i, &room_, link_);
    tally_.Count(engine_.Read({&key, 1}, {&read_, 1}, {}));
    if (!read_.found) return;
    const uint64_t error = Error(numbers_[i], read_.value);
    link_ = LinkOf(error);
    CountValue(error);
  }

  void Delete(size_t i) {
    write_.kind = WriteKind::kDelete;
    write_.key = keys_.Key(i, &room_);
    tally_.Count(engine_.Write({&write_, 1}, {&written_, 1}, options_));
    if (written_.found) ++tally_.found;
  }

  void PutGroup(size_t begin, size_t end) {
    Widen(end - begin);
    for (size_t i = begin; i < end; ++i) {
      const size_t at = i - begin;
      WriteValue(i, &group_values_[at]);
      group_writes_[at].kind = WriteKind::kPut;
      group_writes_[at].key = keys_.Key(i, &rooms_[at]);
      group_writes_[at].value = group_values_[at];
    }
    WriteGroup(end - begin);
  }

  void DeleteGroup(size_t begin, size_t end) {
    Widen(end - begin);
    for (size_t i = begin; i < end; ++i) {
      group_writes_[i - begin].kind = WriteKind::kDelete;
      group_writes_[i - begin].key = keys_.Key(i, &rooms_[i - begin]);
    }
    WriteGroup(end - begin);
    for (size_t at = 0; at < end - begin; ++at) tally_.found += group_written_[at].found ? 1 : 0;
  }

  void ReadGroup(size_t begin, size_t end) {
    const size_t size = end - begin;
    Widen(size);
    for (size_t at = 0; at < size; ++at) group_keys_[at] = keys_.Key(begin + at, &rooms_[at]);
    tally_.Count(
        engine_.Read(std::span(group_keys_).first(size), std::span(group_read_).first(size), {}));
    for (size_t at = 0; at < size; ++at) {
      if (group_read_[at].found) CountValue(Error(numbers_[begin + at], group_read_[at].value));
    }
  }

  void Scan(size_t i) {
    const ScanOptions options{
        .start = keys_.Key(i, &room_), .end = std::nullopt, .limit = kScanItems};
    uint64_t items = 0;
    const auto visit = [&](const ScanItem& item) {
      if (items++ == 0 && item.key == options.start) {
        CountValue(Error(numbers_[i], item.value));
      }
      if (item.value.size() != value_.size()) ++tally_.wrong_values;
      return true;
    };
    tally_.Count(engine_.Scan(options, visit));
    tally_.items += items;
  }

  const Tally& tally() const { return tally_; }

 private:
  void WriteValue(size_t i, std::string* value) const {
    const uint64_t word = ValueWord(numbers_[i], generation_);
    CopyWord(value->data(), &word);
  }
  // Of the usual size without a call, which would be part of every time that is measured.
  void CopyWord(void* to, const void* from) const {
    if (word_bytes_ == sizeof(uint64_t)) [[likely]] {
      std::memcpy(to, from, sizeof(uint64_t));
    } else {
      std::memcpy(to, from, word_bytes_);
    }
  }

  // 0 where the value is that of the key with this number.
  uint64_t Error(uint64_t number, std::string_view value) const {
    uint64_t word = 0;
    if (value.size() != value_.size()) return ~uint64_t{0};
    CopyWord(&word, value.data());
    return ValueError(number & word_mask_, word);
  }

  // Of a key that was found.
  void CountValue(uint64_t error) {
    ++tally_.found;
    if (error != 0) ++tally_.wrong_values;
  }

  // Rooms for the keys and answers of a group.
  void Widen(size_t size) {
    if (rooms_.size() >= size) return;
    rooms_.resize(size);
    group_values_.resize(size, value_);
    group_writes_.resize(size);
    group_written_.resize(size);
    group_keys_.resize(size);
    group_read_.resize(size);
  }

  void WriteGroup(size_t size) {
    tally_.Count(engine_.Write(std::span(group_writes_).first(size),
                               std::span(group_written_).first(size), group_options_));
  }

  Engine& engine_;
  Keys keys_;
  const uint64_t* numbers_;
  const uint8_t generation_;
  std::string value_;
  size_t word_bytes_ = 0;
  uint64_t word_mask_ = 0;
  const WriteOptions options_;
  WriteOp write_;
  WriteResult written_;
  ReadResult read_;
  KeyRoom room_;
  uint64_t link_ = 0;
  // Of a group.
  const WriteOptions group_options_;
  std::vector<KeyRoom> rooms_;
  std::vector<std::string> group_values_;
  std::vector<WriteOp> group_writes_;
  std::vector<WriteResult> group_written_;
  std::vector<std::string_view> group_keys_;
  std::vector<ReadResult> group_read_;
  Tally tally_;
};

template <class Keys>
Tally RunOnEngine(Engine& engine, const OpBatch& batch, LatencyProbe* probe) {
  EngineOps<Keys> ops(engine, batch);
  NoProbe none;
  if (batch.group.size > 1) {
    probe == nullptr ? RunGroups(ops, batch, none) : RunGroups(ops, batch, *probe);
  } else {
    probe == nullptr ? RunBatch(ops, batch, none) : RunBatch(ops, batch, *probe);
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

absl::StatusOr<Subject> FindSubject(std::string_view engine, std::string_view key_format) {
  const auto info = FindEngine(engine);
  if (!info.ok()) return info.status();
  const auto format = ParseKeyFormat(key_format);
  if (!format.ok()) return format.status();
  Subject subject;
  subject.engine = engine;
  subject.key_format = *format;
  subject.persistent = (*info)->persistent;
  subject.discards = (*info)->discards;
  return subject;
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
  if (!keep_pool) RemovePoolFiles(pool_path);
  return closed;
}

}  // namespace lodgekv::bench
