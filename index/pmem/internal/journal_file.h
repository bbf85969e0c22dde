// The file of a journal: created completely or not at all, locked by one process, written with
// direct I/O if the file system supports it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/journal_storage.h"

namespace lodgekv::pmem {

// The system calls that write; tests replace them by failing ones.
class JournalCalls {
 public:
  virtual ~JournalCalls() = default;
  virtual int Allocate(int fd, uint64_t bytes);  // like posix_fallocate: returns the error
  virtual ssize_t Write(int fd, const void* from, size_t bytes, uint64_t offset);
  virtual ssize_t Read(int fd, void* to, size_t bytes, uint64_t offset);
  virtual int Sync(int fd);
  static JournalCalls& Real();
};

class JournalFile : public JournalStorage {
 public:
  // Creates the file with `bytes` (a multiple of kJournalBlock) of zeros, all blocks written;
  // durable with its name. It is made as PATH.creating first; nothing is left after an error.
  // AlreadyExists if there is a file.
  static absl::StatusOr<std::unique_ptr<JournalFile>> Create(
      const std::string& path, uint64_t bytes, JournalCalls& calls = JournalCalls::Real());
  // NotFound if there is none; FailedPrecondition if it is not a regular file, or another process
  // has locked it.
  static absl::StatusOr<std::unique_ptr<JournalFile>> Open(
      const std::string& path, JournalCalls& calls = JournalCalls::Real());
  ~JournalFile() override;
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const override { return bytes_; }
  absl::Status Read(uint64_t offset, std::span<std::byte> to) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> from) override;

  // OK if there is no file.
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
