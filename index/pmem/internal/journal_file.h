// The file of a journal: made whole or not at all, locked by one process, written past the page
// cache where the file system lets us.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/journal_storage.h"

namespace lodgekv::pmem {

// The calls that write; tests put failing ones in their place.
class JournalCalls {
 public:
  virtual ~JournalCalls() = default;
  virtual int Allocate(int fd, uint64_t bytes);  // as posix_fallocate: answers the error
  virtual ssize_t Write(int fd, const void* from, size_t bytes, uint64_t offset);
  virtual ssize_t Read(int fd, void* to, size_t bytes, uint64_t offset);
  virtual int Sync(int fd);
  static JournalCalls& Real();
};

class JournalFile : public JournalStorage {
 public:
  // The file of `bytes`, a multiple of kJournalBlock, with all blocks written, all zero; durable
  // with its name. Made under PATH.creating first; nothing is left behind on an error.
  // AlreadyExists when there is something.
  static absl::StatusOr<std::unique_ptr<JournalFile>> Create(
      const std::string& path, uint64_t bytes, JournalCalls& calls = JournalCalls::Real());
  // NotFound when there is none; FailedPrecondition when it is no regular file, or another process
  // has it.
  static absl::StatusOr<std::unique_ptr<JournalFile>> Open(
      const std::string& path, JournalCalls& calls = JournalCalls::Real());
  ~JournalFile() override;
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const override { return bytes_; }
  absl::Status Read(uint64_t offset, std::span<std::byte> to) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> from) override;

  // OK when nothing is there.
  static absl::Status Remove(const std::string& path);

 private:
  JournalFile(std::string path, int fd, uint64_t bytes, JournalCalls& calls)
      : path_(std::move(path)), fd_(fd), bytes_(bytes), calls_(calls) {}

  static absl::Status Fill(int fd, const std::string& path, uint64_t bytes, JournalCalls& calls);

  const std::string path_;
  const int fd_;
  const uint64_t bytes_;
  JournalCalls& calls_;
};

}  // namespace lodgekv::pmem
