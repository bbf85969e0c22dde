// The errors of Create and Open for unusable pools, and what they leave untouched.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpmemobj.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "index/pmem/internal/pool_header.h"
#include "index/pmem/internal/pool_mapping.h"
#include "index/pmem/pool.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

PoolIdentity TestIdentity() {
  PoolIdentity identity;
  identity.engine = "test";
  return identity;
}

PoolOptions OptionsFor(const std::string& path, uint64_t bytes = 8 * kMiB) {
  PoolOptions options;
  options.path = path;
  options.size_bytes = bytes;
  options.allow_volatile_medium = true;
  return options;
}

// A pool that has been used and closed cleanly.
void MakePool(const PoolOptions& options) {
  auto pool = Pool::Create(options, TestIdentity());
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_TRUE((*pool)->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok());
  (*pool)->PersistAppliedIndex(5);
  ASSERT_TRUE((*pool)->Close(true).ok());
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

absl::Status CreateError(const PoolOptions& options) {
  return Pool::Create(options, TestIdentity()).status();
}

absl::Status OpenError(const PoolOptions& options) { return Pool::Open(options).status(); }

// The offset of the header in the file.
uint64_t HeaderOffset(const std::string& path) {
  auto mapping = PoolMapping::Open(*PoolPath::Inspect(path));
  EXPECT_TRUE(mapping.ok() && (*mapping)->TakeRoot(0).ok());
  return static_cast<uint64_t>((*mapping)->header() - (*mapping)->base());
}

TEST(PoolErrorsTest, Missing) {
  TempDir dir;
  const absl::Status status = OpenError(OptionsFor(dir / "pool"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(dir / "pool"));
  EXPECT_EQ(CreateError(OptionsFor(dir / "no/pool")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenError(OptionsFor("")).code(), absl::StatusCode::kInvalidArgument);
}

TEST(PoolErrorsTest, AlreadyThere) {
  TempDir dir;
  MakePool(OptionsFor(dir / "pool"));
  WriteFile(dir / "text", "shopping list");
  for (const std::string name : {"pool", "text"}) {
    const absl::Status status = CreateError(OptionsFor(dir / name));
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(status.message(), HasSubstr(dir / name));
    EXPECT_TRUE(*Pool::Exists(dir / name));
  }
  EXPECT_EQ(std::filesystem::file_size(dir / "text"), 13u);
  EXPECT_TRUE(Pool::Open(OptionsFor(dir / "pool")).ok());
}

TEST(PoolErrorsTest, InUse) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool");
  MakePool(options);
  auto first = Pool::Open(options);
  ASSERT_TRUE(first.ok());
  const absl::Status status = OpenError(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(options.path), HasSubstr("another process")));
  first->reset();
  EXPECT_TRUE(Pool::Open(options).ok());
}

TEST(PoolErrorsTest, TooSmall) {
  TempDir dir;
  const absl::Status created = CreateError(OptionsFor(dir / "pool", 8 * kMiB - 1));
  EXPECT_EQ(created.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(created.message(),
              AllOf(HasSubstr(dir / "pool"), HasSubstr("8388607"), HasSubstr("8388608")));
  EXPECT_EQ(CreateError(OptionsFor(dir / "pool", 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(dir.Names(), "");
  WriteFile(dir / "small", std::string(100'000, '\0'));
  const absl::Status opened = OpenError(OptionsFor(dir / "small"));
  EXPECT_EQ(opened.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(opened.message(), AllOf(HasSubstr("100000 bytes"), HasSubstr("8388608")));
}

// Runs `body` in a child process, since it may end by SIGBUS.
void ExpectTrueInChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(PoolErrorsTest, TruncatedOrExtended) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool", 24 * kMiB);
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{4096}, 3 * kMiB, 8 * kMiB, 8 * kMiB + 17, 16 * kMiB,
        23 * kMiB, 24 * kMiB - 4096, 24 * kMiB - 1, 24 * kMiB + 4096, 32 * kMiB}) {
    MakePool(options);
    std::filesystem::resize_file(options.path, bytes);
    SCOPED_TRACE(bytes);
    ExpectTrueInChild([&] {
      const absl::Status status = OpenError(options);
      return status.code() == absl::StatusCode::kDataLoss &&
             status.message().find(options.path) != std::string::npos;
    });
    EXPECT_EQ(std::filesystem::file_size(options.path), bytes);
    std::filesystem::remove(options.path);
  }
}

TEST(PoolErrorsTest, NoPoolOfOurs) {
  TempDir dir;
  std::string noise(8 * kMiB, 'n');
  WriteFile(dir / "noise", noise);
  WriteFile(dir / "zeros", std::string(8 * kMiB, '\0'));
  PMEMobjpool* other =
      pmemobj_create((dir / "other").c_str(), "somebody_else", PMEMOBJ_MIN_POOL, 0600);
  ASSERT_NE(other, nullptr);
  pmemobj_close(other);
  for (const std::string name : {"noise", "zeros", "other"}) {
    const absl::Status status = OpenError(OptionsFor(dir / name));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(dir / name), HasSubstr("not a LodgeKV pool")));
  }
  EXPECT_THAT(OpenError(OptionsFor(dir / "other")).message(), HasSubstr("somebody_else"));
  std::ifstream in(dir / "noise", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), noise);
}

TEST(PoolErrorsTest, CreationOfAPoolInterruptedInPlace) {
  TempDir dir;
  PMEMobjpool* bare = pmemobj_create((dir / "pool").c_str(), "lodgekv", PMEMOBJ_MIN_POOL, 0600);
  ASSERT_NE(bare, nullptr);
  pmemobj_close(bare);
  EXPECT_THAT(OpenError(OptionsFor(dir / "pool")).message(), HasSubstr("creation was interrupted"));
  bare = pmemobj_open((dir / "pool").c_str(), "lodgekv");
  pmemobj_root(bare, 64 << 10);
  pmemobj_close(bare);
  const absl::Status status = OpenError(OptionsFor(dir / "pool"));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("creation of the pool was interrupted"));
}

// A mapped file whose bits can be flipped and restored.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) : bytes_(std::filesystem::file_size(path)) {
    const int fd = open(path.c_str(), O_RDWR);
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    whole_.assign(base_, base_ + bytes_);
  }
  ~MappedFile() { munmap(base_, bytes_); }
  void Flip(uint64_t at) { base_[at] ^= static_cast<unsigned char>(1 << at % 8); }
  void Restore() { std::copy(whole_.begin(), whole_.end(), base_); }
  unsigned char* base() { return base_; }

 private:
  const uint64_t bytes_;
  unsigned char* base_;
  std::vector<unsigned char> whole_;
};

// The arena's test flips every bit of engine area and table; here, where opening takes
// milliseconds, a sample of them.
TEST(PoolErrorsTest, BytesOfOurHeaderFlipped) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool");
  MakePool(options);
  const uint64_t header = HeaderOffset(options.path);
  MappedFile file(options.path);
  const auto* on_media = reinterpret_cast<media::Header*>(file.base() + header);
  const uint64_t bytes = PoolHeader::BytesFor(on_media->identity.chunk_rows);
  ASSERT_GT(bytes, sizeof(media::Header));
  const uint64_t area = offsetof(media::Header, engine_area);
  for (uint64_t i = 0; i < bytes; i += i < area ? 1 : 23) {
    file.Flip(header + i);
    const absl::Status status = OpenError(options);
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << i << ": " << status;
    ASSERT_THAT(status.message(), AllOf(HasSubstr(options.path), HasSubstr("damaged"))) << i;
    file.Flip(header + i);
  }
  EXPECT_TRUE(Pool::Open(options).ok());
}

// 64 bytes of libpmemobj's page record unsafe shutdowns, which libpmemobj neither uses nor checks
// on a file: flipping them must not matter.
TEST(PoolErrorsTest, BytesOfTheHeaderPageFlipped) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool");
  MakePool(options);
  MappedFile file(options.path);
  constexpr uint64_t kNote = 4024;
  for (uint64_t i = 0; i < 4096; i += i < 256 || i > kNote - 8 ? 1 : 7) {
    file.Flip(i);
    auto pool = Pool::Open(options);
    if (pool.ok()) {
      ASSERT_TRUE(i >= kNote && i < kNote + 64) << "byte " << i;
      ASSERT_EQ((*pool)->applied_index(), 5u) << "byte " << i;
      ASSERT_EQ((*pool)->Chunks().size(), 1u) << "byte " << i;
      pool->reset();
    } else {
      ASSERT_THAT(pool.status().message(), HasSubstr(options.path)) << "byte " << i;
    }
    file.Restore();
  }
}

TEST(PoolErrorsTest, NewerFormat) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool");
  MakePool(options);
  const uint64_t header = HeaderOffset(options.path);
  MappedFile file(options.path);
  auto* identity = reinterpret_cast<media::Identity*>(file.base() + header);
  identity->format_version = 9;
  identity->crc = IdentityCrc(*identity);
  const absl::Status status = OpenError(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(options.path), HasSubstr("version 9"), HasSubstr("newer")));
}

TEST(PoolErrorsTest, UnwritableDirectory) {
  TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
  const bool root = geteuid() == 0;
  // Root may write anywhere.
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const absl::Status status = CreateError(OptionsFor(dir / "pool"));
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  chmod(dir.path().c_str(), 0700);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr(dir / "pool"));
  EXPECT_EQ(dir.Names(), "");
}

TEST(PoolErrorsTest, UnreadablePool) {
  TempDir dir;
  MakePool(OptionsFor(dir / "pool"));
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((dir / "pool").c_str(), 0000), 0);
  const bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const absl::Status status = OpenError(OptionsFor(dir / "pool"));
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr(dir / "pool"));
}

TEST(PoolErrorsTest, NoSpaceLeavesNothingBehind) {
  TempDir dir;
  const absl::Status status = CreateError(OptionsFor(dir / "pool", uint64_t{1} << 50));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(dir / "pool"), HasSubstr("No space")));
  EXPECT_EQ(dir.Names(), "");
}

TEST(PoolErrorsTest, NoFileAtAll) {
  TempDir dir;
  for (const std::string& path : {dir.path(), std::string("/dev/null")}) {
    const absl::Status status = CreateError(OptionsFor(path));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path), HasSubstr("poolset")));
    EXPECT_FALSE(Pool::Exists(path).ok());
  }
}

TEST(PoolsetErrorsTest, ReplicaOrSizeOrNonsense) {
  TempDir dir;
  WriteFile(dir / "replica", "PMEMPOOLSET\n8M " + dir / "a" + "\nREPLICA\n8M " + dir / "b\n");
  absl::Status status = CreateError(OptionsFor(dir / "replica", 0));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(dir / "replica"), HasSubstr("REPLICA")));
  EXPECT_EQ(OpenError(OptionsFor(dir / "replica", 0)).code(), absl::StatusCode::kInvalidArgument);

  WriteFile(dir / "sized", "PMEMPOOLSET\n8M " + dir / "a\n");
  status = CreateError(OptionsFor(dir / "sized", 8 * kMiB));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("must be 0"));

  WriteFile(dir / "nonsense", "PMEMPOOLSET\n8X " + dir / "a\n");
  EXPECT_THAT(CreateError(OptionsFor(dir / "nonsense", 0)).message(), HasSubstr("8X"));
  WriteFile(dir / "nothing", "PMEMPOOLSET\n");
  EXPECT_THAT(CreateError(OptionsFor(dir / "nothing", 0)).message(), HasSubstr("no part"));
  WriteFile(dir / "small", "PMEMPOOLSET\n2M " + dir / "a\n");
  EXPECT_THAT(CreateError(OptionsFor(dir / "small", 0)).message(), HasSubstr("too small"));
  EXPECT_FALSE(std::filesystem::exists(dir / "a"));
}

}  // namespace
}  // namespace lodgekv::pmem
