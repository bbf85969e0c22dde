#include "bench/path_length/path_runner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/engine_bench/background.h"

namespace lodgekv::bench {
namespace {

// What is set up by a first call, as a thread's place among the readers, is no part of a path.
constexpr uint64_t kUncounted = 16;
constexpr size_t kValueBytes = 8;

// The first bytes of the key, with the generation in the last of them.
std::string ValueOf(std::string_view key, char generation) {
  std::string value(key.substr(0, kValueBytes));
  value.back() = generation;
  return value;
}

bool IsValueOf(std::string_view key, std::string_view value) {
  return value.size() == kValueBytes &&
         value.substr(0, kValueBytes - 1) == key.substr(0, kValueBytes - 1);
}

}  // namespace

uint64_t PathRunner::MostKeysAdded(uint64_t calls) {
  uint64_t keys = 0;
  for (size_t p = 0; p < kPaths; ++p) {
    const auto path = static_cast<Path>(p);
    keys += (kUncounted + CallsOf(path, calls)) * OperationsOf(path);
  }
  return keys;
}

absl::Status PathRunner::Load(uint64_t keys) {
  for (uint64_t i = 0; i < keys; ++i) {
    auto status = Write(Path::kPut, [](absl::FunctionRef<void()> call) { call(); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PathRunner::Run(Path path, uint64_t calls) {
  ++generation_;
  for (uint64_t i = 0; i < kUncounted + calls; ++i) {
    auto status = RunOnce(path, [&](absl::FunctionRef<void()> call) {
      if (i < kUncounted) return call();
      counter_.Call(path, call);
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PathRunner::RunOnce(Path path, Make make) {
  switch (path) {
    case Path::kNothing: make([] {}); return absl::OkStatus();
    case Path::kRead:
    case Path::kReadAbsent:
    case Path::kReadGroup16: return Read(path, make);
    case Path::kScan100: return Scan(make);
    case Path::kPut:
    case Path::kUpdate:
    case Path::kDelete:
    case Path::kPutGroup16:
    case Path::kPutGroup64:
    case Path::kPutBatch100: return Write(path, make);
  }
  return absl::OkStatus();
}

absl::Status PathRunner::Read(Path path, Make make) {
  DrawKeys(path);
  views_.assign(texts_.begin(), texts_.end());
  read_.resize(texts_.size());
  Outcome outcome = Outcome::kOk;
  make([&] { outcome = engine_.Read(views_, read_, {}); });
  uint64_t right = 0;
  for (size_t i = 0; i < read_.size(); ++i) {
    right += path == Path::kReadAbsent ? !read_[i].found
                                       : read_[i].found && IsValueOf(views_[i], read_[i].value);
  }
  return Check(path, outcome, right, read_.size());
}

absl::Status PathRunner::Scan(Make make) {
  texts_.resize(1);
  texts_[0].clear();
  // A hundred pairs are behind all but a few keys; those have none of their own.
  do {
    texts_[0].clear();
    target_.key_writer().Append(keys_.PickLive(Distribution::kUniform), &texts_[0]);
  } while (static_cast<unsigned char>(texts_[0][0]) >= 0xf0);
  const ScanOptions options{
      .start = texts_[0], .end = std::nullopt, .limit = OperationsOf(Path::kScan100)};
  uint64_t right = 0;
  const auto visit = [&](const ScanItem& item) {
    right += IsValueOf(item.key, item.value) ? 1 : 0;
    return true;
  };
  Outcome outcome = Outcome::kOk;
  make([&] { outcome = engine_.Scan(options, visit); });
  return Check(Path::kScan100, outcome, right, OperationsOf(Path::kScan100));
}

absl::Status PathRunner::Write(Path path, Make make) {
  DrawKeys(path);
  const size_t count = texts_.size();
  values_.resize(count);
  ops_.resize(count);
  written_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    values_[i] = ValueOf(texts_[i], generation_);
    ops_[i] = WriteOp{.kind = path == Path::kDelete ? WriteKind::kDelete : WriteKind::kPut,
                      .key = texts_[i],
                      .value = values_[i]};
  }
  const WriteOptions options{.atomic = path == Path::kPutBatch100};
  Outcome outcome = Outcome::kOk;
  make([&] { outcome = engine_.Write(ops_, written_, options); });
  AwaitBackground(target_);
  keys_.Commit();
  const auto found = std::count_if(written_.begin(), written_.end(),
                                   [](const WriteResult& result) { return result.found; });
  return Check(path, outcome, static_cast<uint64_t>(found), path == Path::kDelete ? count : 0);
}

KeyRef PathRunner::DrawKey(Path path) {
  switch (path) {
    case Path::kReadAbsent: return keys_.PickAbsent(Distribution::kUniform);
    case Path::kDelete: return keys_.TakeLive(Distribution::kUniform);
    case Path::kPut:
    case Path::kPutGroup16:
    case Path::kPutGroup64:
    case Path::kPutBatch100: return keys_.NewKey(Distribution::kUniform);
    default: return keys_.PickLive(Distribution::kUniform);
  }
}

void PathRunner::DrawKeys(Path path) {
  texts_.resize(OperationsOf(path));
  for (std::string& text : texts_) {
    text.clear();
    target_.key_writer().Append(DrawKey(path), &text);
  }
}

absl::Status PathRunner::Check(Path path, Outcome outcome, uint64_t right, uint64_t wanted) const {
  if (outcome == Outcome::kOk && (right == wanted || target_.discards())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(target_.id().engine, ", ", std::string(PathName(path)),
                                          ": outcome ", static_cast<int>(outcome), ", ", right,
                                          " answers are right, ", wanted, " should be"));
}

}  // namespace lodgekv::bench
