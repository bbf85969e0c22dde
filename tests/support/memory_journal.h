// A journal in memory, for a pool in plain memory that behaves like one on an ordinary file: its
// fences are groups of the journal. Outlives the pool.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/file_fence.h"
#include "index/pmem/internal/journal_storage.h"
#include "index/pmem/internal/pool_journal.h"
#include "index/pmem/internal/pool_writeback.h"

namespace lodgekv::test {

class MemoryJournal {
 public:
  explicit MemoryJournal(uint64_t segments_bytes)
      : place_(std::make_shared<Place>()), arena_{place_, &pool_, &pool_, segments_bytes} {}
  MemoryJournal(const MemoryJournal&) = delete;
  MemoryJournal& operator=(const MemoryJournal&) = delete;

  const pmem::ArenaJournal& arena() const { return arena_; }

  // What a kill leaves. Nothing is written to the journal while the lock is held: a copy of the
  // pool that is made meanwhile is of the same moment, whatever a checkpoint does in the
  // background.
  std::unique_lock<std::mutex> Freeze() { return std::unique_lock(place_->mutex()); }
  const std::vector<std::byte>& content() const { return place_->content(); }
  void Restore(std::vector<std::byte> content) { place_->Restore(std::move(content)); }

 private:
  class Storage : public pmem::JournalStorage {
   public:
    Storage(std::vector<std::byte>& bytes, std::mutex& mutex) : bytes_(bytes), mutex_(mutex) {}
    uint64_t bytes() const override { return bytes_.size(); }
    absl::Status Read(uint64_t offset, std::span<std::byte> to) override {
      std::memcpy(to.data(), &bytes_[offset], to.size());
      return absl::OkStatus();
    }
    absl::Status Write(uint64_t offset, std::span<const std::byte> from) override {
      const std::lock_guard lock(mutex_);
      std::memcpy(&bytes_[offset], from.data(), from.size());
      return absl::OkStatus();
    }

   private:
    std::vector<std::byte>& bytes_;
    std::mutex& mutex_;
  };

  class Place : public pmem::JournalPlace {
   public:
    std::string name() const override { return "in memory"; }
    absl::StatusOr<std::shared_ptr<pmem::JournalStorage>> Open() override {
      if (bytes_.empty()) return absl::NotFoundError("there is no journal");
      return std::make_shared<Storage>(bytes_, mutex_);
    }
    absl::StatusOr<std::shared_ptr<pmem::JournalStorage>> Make(uint64_t bytes) override {
      bytes_.assign(bytes, std::byte{0});
      return std::make_shared<Storage>(bytes_, mutex_);
    }
    absl::Status Remove() override {
      bytes_.clear();
      return absl::OkStatus();
    }

    std::mutex& mutex() { return mutex_; }
    const std::vector<std::byte>& content() const { return bytes_; }
    void Restore(std::vector<std::byte> content) { bytes_ = std::move(content); }

   private:
    std::vector<std::byte> bytes_;
    std::mutex mutex_;  // of writes
  };

  // The pool's memory is as durable as this program.
  class Memory : public pmem::FileFence, public pmem::PoolWriteback {
   public:
    void Note(const void*) override {}
    bool Fence() override { return true; }
    bool Revoke(const void*, uint64_t) override { return true; }
    bool WriteBack(uint64_t, uint64_t) override { return true; }
    bool WriteBackAll() override { return true; }
    bool RewriteAll(uint64_t) override { return true; }
    void StoreAtFailure(uint64_t*, uint64_t) override {}
  };

  Memory pool_;
  const std::shared_ptr<Place> place_;
  const pmem::ArenaJournal arena_;
};

}  // namespace lodgekv::test
