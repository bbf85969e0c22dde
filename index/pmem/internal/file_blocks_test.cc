// A sparse file gets its blocks before anything is stored in it, or is refused unchanged.
#include "index/pmem/internal/file_blocks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "index/pmem/internal/journal_file.h"
#include "index/pmem/pool.h"
#include "index/pmem/testing/small_disk.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kPoolBytes = 16 * kMiB;

uint64_t BytesOnDisk(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 ? static_cast<uint64_t>(st.st_blocks) * 512 : 0;
}

uint64_t FreeBytes(const std::string& folder) {
  struct statvfs system;
  return statvfs(folder.c_str(), &system) == 0 ? system.f_bavail * system.f_frsize : 0;
}

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Like cp --sparse=always: pages of zeros become holes.
void CopySparse(const std::string& from, const std::string& to) {
  constexpr size_t kPage = 4096;
  const std::string content = Content(from);
  std::ofstream out(to, std::ios::binary);
  const std::string zeros(kPage, '\0');
  for (size_t at = 0; at < content.size(); at += kPage) {
    const std::string page = content.substr(at, kPage);
    if (page == zeros) continue;
    out.seekp(static_cast<std::streamoff>(at));
    out << page;
  }
  out.close();
  std::filesystem::resize_file(to, content.size());
}

class FileBlocksTest : public ::testing::TestWithParam<std::string> {
 protected:
  FileBlocksTest() : dir_(GetParam()) {}

  PoolOptions Options(const std::string& path) const {
    PoolOptions options;
    options.path = path;
    options.size_bytes = kPoolBytes;
    options.allow_volatile_medium = true;
    return options;
  }

  void MakePool(const std::string& path) const {
    PoolIdentity identity;
    identity.engine = "test";
    auto pool = Pool::Create(Options(path), identity);
    ASSERT_TRUE(pool.ok()) << pool.status();
    (*pool)->PersistAppliedIndex(5);
    ASSERT_TRUE((*pool)->Close(true).ok());
  }

  const TempDir dir_;
  const std::string file_ = dir_ / "file";
};

TEST_P(FileBlocksTest, HolesAreFilledAndDataStays) {
  std::ofstream(file_) << "data at the begin";
  std::filesystem::resize_file(file_, 4 * kMiB);
  const std::string before = Content(file_);
  ASSERT_LT(BytesOnDisk(file_), kMiB);
  ASSERT_TRUE(FillHoles(file_, "it").ok());
  EXPECT_GE(BytesOnDisk(file_), 4 * kMiB);
  EXPECT_EQ(Content(file_), before);
  // A file without holes is unchanged.
  ASSERT_TRUE(FillHoles(file_, "it").ok());
  EXPECT_EQ(Content(file_), before);
}

TEST_P(FileBlocksTest, AFileThatIsLockedOrNotThereIsLeftAlone) {
  EXPECT_TRUE(FillHoles(file_, "it").ok());
  EXPECT_FALSE(std::filesystem::exists(file_));
  std::ofstream(file_) << "data";
  std::filesystem::resize_file(file_, 4 * kMiB);
  const int fd = open(file_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_TRUE(FillHoles(file_, "it").ok());
  EXPECT_LT(BytesOnDisk(file_), kMiB);
  close(fd);
}

TEST_P(FileBlocksTest, ASparseCopyOfAPoolIsWholeOnceItIsOpen) {
  MakePool(dir_ / "pool");
  CopySparse(dir_ / "pool", file_);
  ASSERT_LT(BytesOnDisk(file_), kPoolBytes / 2);
  const auto pool = Pool::Open(Options(file_));
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_GE(BytesOnDisk(file_), kPoolBytes);
  EXPECT_EQ((*pool)->applied_index(), 5);
}

TEST_P(FileBlocksTest, ASparseJournalIsWholeOnceItIsOpen) {
  ASSERT_TRUE(JournalFile::Create(file_, 2 * kMiB).ok());
  CopySparse(file_, dir_ / "copy");
  ASSERT_LT(BytesOnDisk(dir_ / "copy"), kMiB);
  ASSERT_TRUE(JournalFile::Open(dir_ / "copy").ok());
  EXPECT_GE(BytesOnDisk(dir_ / "copy"), 2 * kMiB);
}

class FullDiskTest : public FileBlocksTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(disk_);
    MakePool(dir_ / "pool");
    mount_ = std::make_unique<SmallDisk>(disk_, kPoolBytes / 2);
    if (!mount_->mounted()) GTEST_SKIP() << "no file system of our own here: " << mount_->why_not();
  }

  const std::string disk_ = dir_ / "disk";
  std::unique_ptr<SmallDisk> mount_;
};

TEST_P(FullDiskTest, ASparseCopyOfAPoolIsRefusedAndStaysAsItIs) {
  const std::string copy = disk_ + "/pool";
  CopySparse(dir_ / "pool", copy);
  const std::string before = Content(copy);
  const uint64_t on_disk = BytesOnDisk(copy);
  const uint64_t free = FreeBytes(disk_);
  const absl::Status status = Pool::Open(Options(copy)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(copy), HasSubstr("is sparse"),
                    HasSubstr(std::to_string(kPoolBytes - on_disk) + " of its bytes"),
                    HasSubstr(std::to_string(free) + " bytes free")));
  EXPECT_EQ(BytesOnDisk(copy), on_disk);
  EXPECT_EQ(FreeBytes(disk_), free);
  EXPECT_EQ(Content(copy), before);
}

TEST_P(FullDiskTest, ASparseJournalIsRefusedAndStaysAsItIs) {
  const std::string journal = disk_ + "/journal";
  std::ofstream(journal) << "the header of a journal";
  std::filesystem::resize_file(journal, kPoolBytes);
  const uint64_t on_disk = BytesOnDisk(journal);
  const absl::Status status = JournalFile::Open(journal).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("journal " + journal), HasSubstr("is sparse")));
  EXPECT_EQ(BytesOnDisk(journal), on_disk);
}

std::string PlaceName(const ::testing::TestParamInfo<std::string>& info) {
  return info.index == 0 ? "Memory" : "Disk";
}

const auto kPlaces = ::testing::Values(TempDir::Memory(), TempDir::Disk());
INSTANTIATE_TEST_SUITE_P(Places, FileBlocksTest, kPlaces, PlaceName);
INSTANTIATE_TEST_SUITE_P(Places, FullDiskTest, kPlaces, PlaceName);

}  // namespace
}  // namespace lodgekv::pmem
