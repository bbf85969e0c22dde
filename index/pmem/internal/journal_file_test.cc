// The file of a journal: complete or missing, used by one process, and the errors if it cannot be.
#include "index/pmem/internal/journal_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "index/pmem/internal/journal_layout.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kBytes = 3 << 20;

// The n-th call fails, or does only half of the request.
class FailingCalls : public JournalCalls {
 public:
  uint64_t fails_at = 0;
  int error = EIO;
  bool halves = false;  // each write

  int Allocate(int fd, uint64_t bytes) override {
    return Fails() ? error : JournalCalls::Allocate(fd, bytes);
  }
  ssize_t Write(int fd, const void* from, size_t bytes, uint64_t offset) override {
    if (Fails()) return -1;
    const size_t half = std::max<size_t>(bytes / 2 / kJournalBlock * kJournalBlock, kJournalBlock);
    return JournalCalls::Write(fd, from, halves ? std::min(bytes, half) : bytes, offset);
  }
  ssize_t Read(int fd, void* to, size_t bytes, uint64_t offset) override {
    return Fails() ? -1 : JournalCalls::Read(fd, to, bytes, offset);
  }
  int Sync(int fd) override { return Fails() ? -1 : JournalCalls::Sync(fd); }

  uint64_t calls() const { return calls_; }

 private:
  bool Fails() {
    errno = error;
    return ++calls_ == fails_at;
  }
  uint64_t calls_ = 0;
};

struct alignas(kJournalBlock) Block {
  std::byte bytes[2 * kJournalBlock];
};

class JournalFileTest : public ::testing::TestWithParam<std::string> {
 protected:
  TempDir dir_{GetParam()};
  const std::string path_ = dir_ / "journal";
};

TEST_P(JournalFileTest, IsMadeWholeOfZerosAndReadAsWritten) {
  auto file = JournalFile::Create(path_, kBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->bytes(), kBytes);
  EXPECT_EQ(dir_.Names(), "journal");
  struct stat st;
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600U);
  EXPECT_GE(static_cast<uint64_t>(st.st_blocks) * 512, kBytes);
  Block block{};
  block.bytes[5000] = std::byte{9};
  ASSERT_TRUE((*file)->Write(kJournalBlock, block.bytes).ok());
  file->reset();
  file = JournalFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  Block read{};
  ASSERT_TRUE((*file)->Read(kJournalBlock, read.bytes).ok());
  EXPECT_EQ(read.bytes[5000], std::byte{9});
  EXPECT_EQ((*file)->Read(kBytes - kJournalBlock, read.bytes).code(), absl::StatusCode::kDataLoss);
}

TEST_P(JournalFileTest, WhatAnInterruptedMakingLeftIsTakenOver) {
  std::ofstream(path_ + ".creating") << std::string(2 * kBytes, 'x');
  auto file = JournalFile::Create(path_, kBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->bytes(), kBytes);
  EXPECT_EQ(dir_.Names(), "journal");
}

TEST_P(JournalFileTest, IsNeverMadeOverAnything) {
  std::ofstream(path_) << "a letter";
  EXPECT_EQ(JournalFile::Create(path_, kBytes).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(dir_.Names(), "journal");
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
}

TEST_P(JournalFileTest, BelongsToOne) {
  auto file = JournalFile::Create(path_, kBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(JournalFile::Open(path_).status(),
            absl::FailedPreconditionError("journal " + path_ +
                                          " is in use by another process; a journal belongs to one "
                                          "pool at a time"));
  file->reset();
  EXPECT_TRUE(JournalFile::Open(path_).ok());
}

TEST_P(JournalFileTest, SaysWhatIsNoFile) {
  EXPECT_EQ(JournalFile::Open(path_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(JournalFile::Open(dir_ / "fifo").status(),
            absl::FailedPreconditionError("journal " + (dir_ / "fifo") +
                                          " is not a regular file; name one, or a path where "
                                          "nothing is yet"));
  const absl::Status directory = JournalFile::Open(dir_.path()).status();
  EXPECT_FALSE(directory.ok());
  EXPECT_THAT(directory.message(), AllOf(HasSubstr(dir_.path()), HasSubstr("directory")));
}

TEST_P(JournalFileTest, NothingIsLeftWhenItCannotBeMade) {
  for (const int error : {EIO, ENOSPC}) {
    bool failed = true;
    uint64_t n = 0;
    while (failed) {
      FailingCalls calls;
      calls.fails_at = ++n;
      calls.error = error;
      const absl::Status status = JournalFile::Create(path_, kBytes, calls).status();
      failed = calls.calls() >= n;
      EXPECT_EQ(status.ok(), !failed) << n;
      if (!failed) break;
      EXPECT_THAT(status.message(), HasSubstr(path_)) << n;
      EXPECT_EQ(dir_.Names(), "") << n;
    }
    EXPECT_EQ(n, 6U);  // allocated, three pieces written, synced
    ASSERT_TRUE(JournalFile::Remove(path_).ok());
  }
  EXPECT_TRUE(JournalFile::Remove(path_).ok());
}

TEST_P(JournalFileTest, AShortWriteGoesOn) {
  FailingCalls calls;
  calls.halves = true;
  auto file = JournalFile::Create(path_, kBytes, calls);
  ASSERT_TRUE(file.ok()) << file.status();
  Block block;
  std::fill(std::begin(block.bytes), std::end(block.bytes), std::byte{3});
  ASSERT_TRUE((*file)->Write(0, block.bytes).ok());
  Block read{};
  ASSERT_TRUE((*file)->Read(0, read.bytes).ok());
  EXPECT_EQ(read.bytes[2 * kJournalBlock - 1], std::byte{3});
  calls.fails_at = calls.calls() + 2;
  EXPECT_THAT((*file)->Write(0, block.bytes).message(),
              AllOf(HasSubstr("a write to journal " + path_ + " failed"), HasSubstr("error")));
}

INSTANTIATE_TEST_SUITE_P(On, JournalFileTest, ::testing::Values(TempDir::Memory(), TempDir::Disk()),
                         [](const auto& test) {
                           return test.param == TempDir::Memory() ? "Memory" : "Disk";
                         });

}  // namespace
}  // namespace lodgekv::pmem
