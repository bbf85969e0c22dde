#include "bench/pibench/pibench_tree.h"

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/pibench/tree_options.h"
#include "index/key_format_name.h"

namespace lodgekv::pibench {
namespace {

std::string Meaning(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk: return "ok";
    case Outcome::kConditionFailed: return "the condition did not hold";
    case Outcome::kAborted: return "aborted";
    case Outcome::kInvalidArgument: return "the key format has no such key or value";
    case Outcome::kPoolFull: return "the pool is full: give a larger --pool_size";
    case Outcome::kDataLoss: return "the pool holds a damaged record";
    case Outcome::kMediumFailed: return "a sync of the pool failed";
  }
  return "an outcome that is not known here";
}

}  // namespace

absl::StatusOr<std::unique_ptr<PibenchTree>> PibenchTree::Create(std::string_view engine,
                                                                 const tree_options_t& options) {
  absl::StatusOr<StoreOptions> store_options = StoreOptionsFor(engine, options);
  if (!store_options.ok()) return store_options.status();
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(*store_options);
  if (!store.ok()) return store.status();
  return std::unique_ptr<PibenchTree>(new PibenchTree(*std::move(store), options));
}

PibenchTree::PibenchTree(std::unique_ptr<Store> store, const tree_options_t& options)
    : store_(std::move(store)),
      engine_(store_->engine()),
      key_size_(options.key_size),
      value_size_(options.value_size) {}

PibenchTree::~PibenchTree() {
  const absl::Status closed = store_->Close();
  if (!closed.ok()) std::fprintf(stderr, "pibench: close: %s\n", closed.ToString().c_str());
}

bool PibenchTree::find(const char* key, size_t key_size, char* value_out) {
  thread_local ReadResult result;
  CheckKey("find", key_size);
  const std::string_view wanted(key, key_size);
  const Outcome outcome = engine_.Read({&wanted, 1}, {&result, 1}, {});
  if (outcome != Outcome::kOk) Fail("find", outcome);
  if (!result.found) return false;
  CheckValue("find", result.value.size());
  std::memcpy(value_out, result.value.data(), result.value.size());
  return true;
}

bool PibenchTree::insert(const char* key, size_t key_size, const char* value, size_t value_size) {
  return Put("insert", Condition::kIfAbsent, {key, key_size}, {value, value_size});
}

bool PibenchTree::update(const char* key, size_t key_size, const char* value, size_t value_size) {
  return Put("update", Condition::kIfPresent, {key, key_size}, {value, value_size});
}

bool PibenchTree::Put(const char* call, Condition condition, std::string_view key,
                      std::string_view value) {
  CheckKey(call, key.size());
  CheckValue(call, value.size());
  const WriteOp op = {.condition = condition, .key = key, .value = value};
  WriteResult result;
  const Outcome outcome = engine_.Write({&op, 1}, {&result, 1}, {});
  if (outcome == Outcome::kConditionFailed) return false;
  if (outcome != Outcome::kOk) Fail(call, outcome);
  return true;
}

bool PibenchTree::remove(const char* key, size_t key_size) {
  CheckKey("remove", key_size);
  const WriteOp op = {.kind = WriteKind::kDelete, .key = {key, key_size}};
  WriteResult result;
  const Outcome outcome = engine_.Write({&op, 1}, {&result, 1}, {});
  if (outcome != Outcome::kOk) Fail("remove", outcome);
  return result.found;
}

int PibenchTree::scan(const char* key, size_t key_size, int scan_size, char*& values_out) {
  thread_local std::vector<char> pairs;
  CheckKey("scan", key_size);
  const size_t wanted = scan_size > 0 ? static_cast<size_t>(scan_size) : 0;
  pairs.resize(wanted * (key_size_ + value_size_));
  values_out = pairs.data();
  if (wanted == 0) return 0;
  int scanned = 0;
  char* out = pairs.data();
  const auto copy = [&](const ScanItem& item) {
    CheckKey("scan", item.key.size());
    CheckValue("scan", item.value.size());
    std::memcpy(out, item.key.data(), key_size_);
    std::memcpy(out + key_size_, item.value.data(), value_size_);
    out += key_size_ + value_size_;
    ++scanned;
    return true;
  };
  const Outcome outcome = engine_.Scan({.start = {key, key_size}, .limit = wanted}, copy);
  if (outcome != Outcome::kOk) Fail("scan", outcome);
  return scanned;
}

std::string PibenchTree::Description() const {
  const StoreInfo& info = store_->info();
  const std::string key_format(KeyFormatName(info.key_format));
  if (info.pool_path.empty()) return absl::StrCat("key format ", key_format, ", no pool");
  return absl::StrCat(info.created ? "created " : "opened ", info.pool_path, ", key format ",
                      key_format, info.inline_pairs ? " with inline pairs" : "", ", medium ",
                      info.medium_class, ", durability ", info.durability, ": ",
                      info.durability_detail);
}

void PibenchTree::CheckKey(const char* call, size_t key_size) const {
  if (key_size == key_size_) return;
  Fail(call, absl::StrCat("a key of ", key_size, " bytes, but the tree was created for keys of ",
                          key_size_));
}

void PibenchTree::CheckValue(const char* call, size_t value_size) const {
  if (value_size == value_size_) return;
  Fail(call, absl::StrCat("a value of ", value_size,
                          " bytes, but the tree was created for values of ", value_size_));
}

void PibenchTree::Fail(const char* call, Outcome outcome) const { Fail(call, Meaning(outcome)); }

void PibenchTree::Fail(const char* call, const std::string& what) const {
  const StoreInfo& info = store_->info();
  throw std::runtime_error(absl::StrCat("lodgekv engine ", info.engine,
                                        info.pool_path.empty() ? "" : ", pool ", info.pool_path,
                                        ": ", call, ": ", what));
}

}  // namespace lodgekv::pibench
