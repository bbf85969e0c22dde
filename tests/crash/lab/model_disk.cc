#include "tests/crash/lab/model_disk.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "index/pmem/internal/journal_layout.h"
#include "index/pmem/internal/page_set.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kSector = 512;
constexpr uint64_t kWord = sizeof(uint64_t);

uint64_t PageOf(uint32_t word) { return word * kWord / pmem::PageSet::kPageBytes; }

Moment MomentOf(uint64_t offset) {
  if (offset == 0) return Moment::kHeader;
  return offset < pmem::kJournalSegmentsBegin ? Moment::kCheckpoint : Moment::kGroup;
}

}  // namespace

class ModelDisk::Storage : public pmem::JournalStorage {
 public:
  explicit Storage(ModelDisk& disk) : disk_(disk) {}
  uint64_t bytes() const override { return disk_.journal_.size(); }
  absl::Status Read(uint64_t offset, std::span<std::byte> to) override {
    const auto lock = disk_.Hold();
    if (offset + to.size() > bytes()) return absl::DataLossError("the journal is truncated");
    std::memcpy(to.data(), disk_.journal_.data() + offset, to.size());
    return absl::OkStatus();
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> from) override {
    return disk_.WriteJournal(offset, from);
  }

 private:
  ModelDisk& disk_;
};

class ModelDisk::Place : public pmem::JournalPlace {
 public:
  explicit Place(ModelDisk& disk) : disk_(disk) {}
  std::string name() const override { return "of the model"; }
  absl::StatusOr<std::shared_ptr<pmem::JournalStorage>> Open() override {
    if (disk_.journal_.empty()) return absl::NotFoundError("there is no journal");
    return disk_.storage();
  }
  absl::StatusOr<std::shared_ptr<pmem::JournalStorage>> Make(uint64_t bytes) override {
    disk_.journal_.assign(bytes, std::byte{0});
    return disk_.storage();
  }
  absl::Status Remove() override {
    disk_.journal_.clear();
    return absl::OkStatus();
  }

 private:
  ModelDisk& disk_;
};

ModelDisk::ModelDisk(std::span<std::byte> memory, std::vector<std::byte> journal, Fault fault)
    : memory_(memory),
      fault_(fault),
      durable_(memory.begin(), memory.end()),
      journal_(std::move(journal)) {}

std::shared_ptr<pmem::JournalPlace> ModelDisk::place() { return std::make_shared<Place>(*this); }

std::shared_ptr<pmem::JournalStorage> ModelDisk::storage() {
  return std::make_shared<Storage>(*this);
}

void ModelDisk::Reach(Moment moment) {
  const auto lock = Hold();
  if (on_moment) on_moment(moment);
}

// --- the pool's file ---

void ModelDisk::Store(uint64_t offset, uint64_t value) {
  const auto lock = Hold();
  __atomic_store_n(reinterpret_cast<uint64_t*>(&memory_[offset]), value, __ATOMIC_RELAXED);
  OnStore(&memory_[offset], kWord, false);
}

void ModelDisk::StoreDurably(uint64_t offset, uint64_t value) {
  const auto lock = Hold();
  Store(offset, value);
  std::memcpy(&durable_[offset], &value, kWord);
  stored_.erase(static_cast<uint32_t>(offset / kWord));
  std::erase(dirty_, static_cast<uint32_t>(offset / kWord));
}

void ModelDisk::OnStore(const void* dst, size_t bytes, bool) {
  const auto lock = Hold();
  const auto begin = static_cast<uint64_t>(static_cast<const std::byte*>(dst) - memory_.data());
  for (auto word = static_cast<uint32_t>(begin / kWord); word * kWord < begin + bytes; ++word) {
    uint64_t value;
    std::memcpy(&value, &memory_[word * kWord], kWord);
    std::vector<uint64_t>& stored = stored_[word];
    if (stored.empty()) dirty_.push_back(word);
    given_up_.erase(PageOf(word));
    stored.push_back(value);
  }
}

bool ModelDisk::WriteBack(uint64_t begin, uint64_t bytes) {
  const auto lock = Hold();
  Reach(bytes == memory_.size() ? Moment::kSync : Moment::kWriteBack);
  const bool fails = FailsNow();
  std::erase_if(dirty_, [&](uint32_t word) {
    const uint64_t offset = word * kWord;
    if (offset < begin || offset >= begin + bytes || given_up_.contains(PageOf(word))) return false;
    if (fails) {
      given_up_.insert(PageOf(word));
      return false;
    }
    std::memcpy(&durable_[offset], &memory_[offset], kWord);
    stored_.erase(word);
    return true;
  });
  if (fails && at_failure_.first != nullptr) {
    const auto* word = reinterpret_cast<const std::byte*>(at_failure_.first);
    Store(static_cast<uint64_t>(word - memory_.data()), at_failure_.second);
  }
  return !fails;
}

bool ModelDisk::RewriteAll(uint64_t) {
  const auto lock = Hold();
  given_up_.clear();
  return WriteBackAll();
}

void ModelDisk::FailSync() {
  const auto lock = Hold();
  fails_at = calls_ + 1;
  (void)WriteBackAll();
  fails_at = 0;
}

void ModelDisk::GiveUpPages() {
  const auto lock = Hold();
  for (const uint32_t word : dirty_) given_up_.insert(PageOf(word));
}

bool ModelDisk::WriteBackAll() { return WriteBack(0, memory_.size()); }

// --- the journal ---

absl::Status ModelDisk::WriteJournal(uint64_t offset, std::span<const std::byte> from) {
  auto lock = Hold();
  if (dropped_) Keep(*std::exchange(dropped_, std::nullopt));
  const auto it = under_way_.insert(under_way_.end(), {offset, {from.begin(), from.end()}});
  Reach(MomentOf(offset));
  lock.unlock();
  std::this_thread::yield();  // let other threads run meanwhile
  lock.lock();
  JournalWrite write = std::move(*it);
  under_way_.erase(it);
  if (FailsNow()) {
    // The part written so far stays.
    Random random("a write that failed", calls_);
    DrawWrite(write, random, journal_.data());
    return absl::DataLossError("the model of a disk has failed");
  }
  if (MomentOf(offset) == Moment::kGroup && std::exchange(drops_fence_, false)) {
    dropped_ = std::move(write);
    fault_happened_ = true;
  } else {
    Keep(write);
  }
  return absl::OkStatus();
}

void ModelDisk::Keep(const JournalWrite& write) {
  std::memcpy(journal_.data() + write.offset, write.bytes.data(), write.bytes.size());
}

void ModelDisk::OnCrashPoint(std::string_view name) {
  crash_points_.emplace(name);
  if (fault_.kind == Fault::Kind::kDropFence && name == fault_.where) drops_fence_ = true;
  Reach(Moment::kPoint);
}

bool ModelDisk::OnCanary(std::string_view name) {
  const bool asked = fault_.kind == Fault::Kind::kAsk && name == fault_.where;
  if (!asked) return false;
  const auto lock = Hold();
  fault_happened_ = true;
  return true;
}

// --- images ---

void ModelDisk::Draw(Random& random, DiskImage* image) const {
  const auto lock = Hold();
  std::memcpy(image->pool.span().data(), durable_.data(), memory_.size());
  DrawPool(random, image->pool.span().data());
  image->journal = journal_;
  if (dropped_) DrawWrite(*dropped_, random, image->journal.data());
  for (const JournalWrite& write : under_way_) DrawWrite(write, random, image->journal.data());
}

void ModelDisk::DrawPool(Random& random, std::byte* pool) const {
  if (dirty_.empty()) return;
  const uint64_t kind = random.Below(5);
  const uint32_t chosen = dirty_[random.Below(dirty_.size())] / (pmem::kLineBytes / kWord);
  for (const uint32_t word : dirty_) {
    const std::vector<uint64_t>& stored = stored_.at(word);
    const bool in_chosen = word / (pmem::kLineBytes / kWord) == chosen;
    uint64_t kept = 0;  // of the stores to it, from the first on
    if (kind == 1 || (kind == 2 && in_chosen) || (kind == 3 && !in_chosen)) kept = stored.size();
    if (kind == 4) kept = random.Below(stored.size() + 1);
    if (kept > 0) std::memcpy(pool + word * kWord, &stored[kept - 1], kWord);
  }
}

void ModelDisk::DrawWrite(const JournalWrite& write, Random& random, std::byte* journal) const {
  const uint64_t sectors = write.bytes.size() / kSector;
  const uint64_t kind = random.Below(6);
  const uint64_t chosen = random.Below(sectors);
  for (uint64_t i = 0; i < sectors; ++i) {
    const bool kept = kind == 1 || (kind == 2 && i < chosen) || (kind == 3 && i != chosen) ||
                      (kind >= 4 && random.OneIn(2));
    if (kept) {
      std::memcpy(journal + write.offset + i * kSector, &write.bytes[i * kSector], kSector);
    }
  }
  if (kind != 5 || MomentOf(write.offset) == Moment::kHeader) return;
  for (uint64_t i = 0; i < kSector; ++i) {
    journal[write.offset + chosen * kSector + i] = static_cast<std::byte>(random.Next());
  }
}

}  // namespace lodgekv::test
