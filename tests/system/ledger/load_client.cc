#include "tests/system/ledger/load_client.h"

#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kOwnKeys = 400;
constexpr uint64_t kSharedKeys = 40;
constexpr size_t kLargestBatch = 12;
constexpr size_t kValueBytes[] = {8, 8, 14, 40, 100, 1000, 5000};
constexpr uint64_t kPlaces = uint64_t{1} << kPlaceBits;

int64_t SystemMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const client::WriteCondition kIfAbsent{.if_absent = true, .if_present = false, .if_version = {}};
const client::WriteCondition kIfPresent{.if_absent = false, .if_present = true, .if_version = {}};

client::WriteCondition IfVersion(uint64_t version) {
  client::WriteCondition condition;
  condition.if_version = version;
  return condition;
}

client::ScanOptions AllOf(KeyFormat format, uint64_t range) {
  client::ScanOptions scan;
  scan.start = LedgerKey(format, KeyNumber(range, 0));
  scan.end = LedgerKey(format, KeyNumber(range, kPlaces - 1));
  return scan;
}

bool IsRefusedCondition(const absl::Status& status) {
  return client::ErrorOf(status).reason == "CONDITION_FAILED";
}

}  // namespace

uint64_t LedgerValueId(KeyFormat format, const std::string& value) {
  if (value.size() < 8) return kAbsent;
  const uint64_t id = IdOf(value);
  return value == ValueOf(format, id, value.size()) ? id : kAbsent;
}

LoadClient::LoadClient(const LoadOptions& options)
    : options_(options),
      client_(client::Client::Create({.server = options.server})),
      random_("load client", options.cycle << 8 | options.client) {}

Ledger LoadClient::Run() {
  // The existing content was checked before; the client's own range starts from it.
  ScanOwn();
  for (uint64_t i = 0; !gone_ && i < options_.operations; ++i) Step();
  return std::move(ledger_);
}

void LoadClient::Step() {
  const uint64_t draw = random_.Below(100);
  if (draw < 45) return Put();
  if (draw < 58) return Delete();
  if (draw < 63) return PutIfAbsent();
  if (draw < 68) return PutIfPresent();
  if (draw < 73) return options_.has_versions ? PutIfVersion() : Put();
  if (draw < 76) return options_.has_versions ? PutShortLived() : Put();
  if (draw < 88) return Batch();
  if (draw < 96) return Get();
  return draw < 98 ? ScanOwn() : ScanShared();
}

uint64_t LoadClient::DrawKey() {
  if (random_.Percent(30)) return KeyNumber(kSharedRange, random_.Below(kSharedKeys));
  return KeyNumber(OwnRange(options_.client), random_.Below(kOwnKeys));
}

std::string LoadClient::NewValue(uint64_t* id) {
  *id = (options_.cycle + 1) << 40 | options_.client << 32 | ++values_;
  return ValueOf(options_.format, *id, kValueBytes[random_.Below(std::size(kValueBytes))]);
}

client::PutOptions LoadClient::DrawOptions(const client::WriteCondition& condition) {
  client::PutOptions put{condition, std::nullopt};
  // A lifetime longer than the test: its only effect is another form of record.
  if (options_.has_versions && random_.OneIn(8)) put.ttl = absl::Hours(24);
  return put;
}

bool LoadClient::Answered(const absl::Status& status, const char* what) {
  if (status.ok()) return true;
  gone_ = true;
  // A daemon that shuts down says so, and has not applied it.
  if (!client::WriteIsUnknown(status) && !absl::IsUnavailable(status)) {
    ledger_.mistakes.push_back(absl::StrCat(what, " was answered with ", status.ToString()));
  }
  return false;
}

void LoadClient::Note(uint64_t key, int64_t call, const absl::Status& status,
                      const RegisterOp& applied, const RegisterOp& refused, uint64_t batch) {
  const bool is_refused = IsRefusedCondition(status);
  const bool unknown = client::WriteIsUnknown(status);
  if (!is_refused && !Answered(status, "a write") && !unknown) return;  // not applied
  const int64_t end = unknown ? kNeverReturned : TimeOfReturn();
  const RegisterOp op =
      (is_refused ? refused : applied).At(call, end, static_cast<uint32_t>(options_.client));
  ledger_.entries.push_back({key, op, batch});
  if (unknown || !op.sets || RangeOf(key) == kSharedRange) return;
  if (op.value == kAbsent) {
    own_.erase(key);
  } else {
    own_[key] = op.value;
  }
}

void LoadClient::Put() {
  const uint64_t key = DrawKey();
  uint64_t id;
  const std::string value = NewValue(&id);
  const int64_t call = TimeOfCall();
  const auto result = client_->Put(LedgerKey(options_.format, key), value, DrawOptions());
  Note(key, call, result.status(), RegisterOp::Write(id), {});
}

void LoadClient::Delete() {
  const uint64_t key = DrawKey();
  const int64_t call = TimeOfCall();
  const auto found = client_->Delete(LedgerKey(options_.format, key), {});
  Note(key, call, found.status(), RegisterOp::Delete(!found.ok() || *found), {});
}

void LoadClient::PutIfAbsent() {
  const uint64_t key = DrawKey();
  uint64_t id;
  const std::string value = NewValue(&id);
  const int64_t call = TimeOfCall();
  const auto result = client_->Put(LedgerKey(options_.format, key), value, DrawOptions(kIfAbsent));
  Note(key, call, result.status(), RegisterOp::WriteIfAbsent(id, true),
       RegisterOp::WriteIfAbsent(id, false));
}

void LoadClient::PutIfPresent() {
  const uint64_t key = DrawKey();
  uint64_t id;
  const std::string value = NewValue(&id);
  const int64_t call = TimeOfCall();
  const auto result = client_->Put(LedgerKey(options_.format, key), value, DrawOptions(kIfPresent));
  Note(key, call, result.status(), RegisterOp::WriteIfPresent(id, true),
       RegisterOp::WriteIfPresent(id, false));
}

void LoadClient::PutIfVersion() {
  const uint64_t key = DrawKey();
  const std::string name = LedgerKey(options_.format, key);
  const auto read = client_->Get(name);
  if (!Answered(read.status(), "a read") || !read->found) return;
  const uint64_t expected = IdOfValue(key, read->value);
  uint64_t id;
  const std::string value = NewValue(&id);
  const int64_t call = TimeOfCall();
  const auto result = client_->Put(name, value, DrawOptions(IfVersion(read->version)));
  Note(key, call, result.status(), RegisterOp::CompareAndSet(expected, id, true),
       RegisterOp::CompareAndSet(expected, id, false));
}

void LoadClient::PutShortLived() {
  const uint64_t range = ShortLivedRange(options_.client, options_.cycle);
  if (short_lived_ + 1 == kPlaces) return;
  ShortLived put{.key = KeyNumber(range, short_lived_++)};
  const std::string value = NewValue(&put.id);
  const int64_t ttl = static_cast<int64_t>(random_.Between(5, 3000));
  put.first_end_ms = SystemMs() + ttl;
  const auto result = client_->Put(LedgerKey(options_.format, put.key), value,
                                   {.condition = {}, .ttl = absl::Milliseconds(ttl)});
  if (!Answered(result.status(), "a put with a life") && !client::WriteIsUnknown(result.status())) {
    return;
  }
  put.acknowledged = result.ok();
  put.last_end_ms = SystemMs() + ttl + 1;
  ledger_.short_lived.push_back(put);
}

// Of keys that only this client writes, or of shared ones.
void LoadClient::Batch() {
  const bool shared = random_.Percent(30);
  std::set<uint64_t> keys;
  for (size_t n = random_.Between(2, kLargestBatch); n > 0; --n) {
    keys.insert(shared ? KeyNumber(kSharedRange, random_.Below(kSharedKeys))
                       : KeyNumber(OwnRange(options_.client), random_.Below(kOwnKeys)));
  }
  std::vector<client::BatchOp> ops;
  std::vector<uint64_t> ids;
  for (const uint64_t key : keys) {
    client::BatchOp op;
    op.key = LedgerKey(options_.format, key);
    ids.push_back(kAbsent);
    if (!random_.OneIn(4)) {
      op.value = NewValue(&ids.back());
      op.options = DrawOptions();
    }
    ops.push_back(std::move(op));
  }
  const uint64_t batch = (options_.cycle + 1) << 40 | options_.client << 32 | ++values_;
  const int64_t call = TimeOfCall();
  const auto results = client_->BatchWrite(ops);
  size_t i = 0;
  for (const uint64_t key : keys) {
    const bool found = !results.ok() || (*results)[i].found;
    const RegisterOp op = ids[i] == kAbsent ? RegisterOp::Delete(found) : RegisterOp::Write(ids[i]);
    Note(key, call, results.status(), op, {}, batch);
    ++i;
  }
}

void LoadClient::Get() {
  const uint64_t key = DrawKey();
  const int64_t call = TimeOfCall();
  const auto read = client_->Get(LedgerKey(options_.format, key));
  if (!Answered(read.status(), "a read")) return;
  const int64_t end = TimeOfReturn();
  const uint64_t id = read->found ? IdOfValue(key, read->value) : kAbsent;
  ledger_.entries.push_back(
      {key, RegisterOp::Read(id).At(call, end, static_cast<uint32_t>(options_.client)), 0});
}

// Nobody else writes there: a scan must return exactly the known content.
void LoadClient::ScanOwn() {
  const uint64_t range = OwnRange(options_.client);
  const bool first = ledger_.entries.empty();
  State seen;
  const absl::Status status = client_->Scan(
      AllOf(options_.format, range),
      [&](const client::ScanItem& item) {
        const uint64_t key = LedgerNumber(options_.format, item.key).value_or(0);
        seen[key] = IdOfValue(key, std::string(item.value));
        return true;
      },
      nullptr);
  if (!Answered(status, "a scan")) return;
  if (first) own_ = seen;
  if (seen != own_) {
    Mistake(KeyNumber(range, 0),
            absl::StrFormat("a scan of the range, which nobody else writes, saw %d keys, or "
                            "values, other than the %d that are there",
                            seen.size(), own_.size()));
  }
}

void LoadClient::ScanShared() {
  const int64_t call = TimeOfCall();
  State seen;
  const absl::Status status = client_->Scan(
      AllOf(options_.format, kSharedRange),
      [&](const client::ScanItem& item) {
        const uint64_t key = LedgerNumber(options_.format, item.key).value_or(0);
        if (!seen.try_emplace(key, IdOfValue(key, std::string(item.value))).second) {
          Mistake(key, "a scan saw it twice");
        }
        return true;
      },
      nullptr);
  if (!Answered(status, "a scan")) return;
  const int64_t end = TimeOfReturn();
  for (const auto& [key, id] : seen) {
    ledger_.entries.push_back(
        {key, RegisterOp::Read(id).At(call, end, static_cast<uint32_t>(options_.client)), 0});
  }
}

uint64_t LoadClient::IdOfValue(uint64_t key, const std::string& value) {
  const uint64_t id = LedgerValueId(options_.format, value);
  if (id == kAbsent) Mistake(key, "was read with a value that nobody wrote");
  return id;
}

void LoadClient::Mistake(uint64_t key, const std::string& what) {
  ledger_.mistakes.push_back(absl::StrFormat("key %d of range %d, client %d: %s", key % kPlaces,
                                             RangeOf(key), options_.client, what));
}

}  // namespace lodgekv::test
