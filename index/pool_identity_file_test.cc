#include "index/pool_identity_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "index/pmem/testing/temp_dir.h"
#include "index/store.h"

namespace lodgekv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kId[] = "0123456789abcdef0123456789abcdef";
constexpr uint64_t kPoolBytes = uint64_t{16} << 20;

class PoolIdentityTest : public ::testing::Test {
 protected:
  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  StoreOptions Options() const {
    StoreOptions options;
    options.pool_path = pool_;
    options.pool_size_bytes = kPoolBytes;
    options.allow_volatile_medium = true;
    options.pool_identity_file = file_.path();
    return options;
  }

  // Opens and closes the pool; returns its id, or the error.
  std::string Serve(const StoreOptions& options) const {
    auto store = Store::Open(options);
    if (!store.ok()) return std::string(store.status().message());
    const std::string id = (*store)->info().pool_id;
    EXPECT_TRUE((*store)->Close().ok());
    return id;
  }

  const pmem::TempDir dir_;
  const std::string pool_ = dir_ / "pool";
  const PoolIdentityFile file_{dir_ / "identity"};
};

TEST_F(PoolIdentityTest, IsReadAsWritten) {
  EXPECT_EQ(*file_.Read(), std::nullopt);
  ASSERT_TRUE(file_.Write(kId).ok());
  EXPECT_EQ(*file_.Read(), kId);
  EXPECT_EQ(dir_.Names(), "identity");
  struct stat st;
  ASSERT_EQ(stat(file_.path().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600);
  EXPECT_EQ(file_.Write(kId).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(dir_.Names(), "identity");
}

TEST_F(PoolIdentityTest, DamageIsNamed) {
  const std::string sound = std::string("lodgekv pool ") + kId + "\n";
  for (const std::string& content :
       {std::string(), sound.substr(0, sound.size() - 1), sound.substr(1), sound + "more",
        std::string("lodgekv pool ") + "0123\n", sound.substr(0, 20) + "G" + sound.substr(21),
        std::string(1000, '\0')}) {
    Write(file_.path(), content);
    const auto read = file_.Read();
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << content;
    EXPECT_THAT(std::string(read.status().message()),
                AllOf(HasSubstr(file_.path()), HasSubstr("damaged"), HasSubstr("remove the file")));
    EXPECT_THAT(Serve(Options()), HasSubstr("damaged"));
    EXPECT_FALSE(std::filesystem::exists(pool_));
  }
}

TEST_F(PoolIdentityTest, OfThePoolThatIsServedFirstIsKept) {
  const std::string id = Serve(Options());
  EXPECT_EQ(*file_.Read(), id);
  EXPECT_EQ(Serve(Options()), id);
  // A pool that existed before the identity file was configured.
  std::filesystem::remove(file_.path());
  EXPECT_EQ(Serve(Options()), id);
  EXPECT_EQ(*file_.Read(), id);
}

TEST_F(PoolIdentityTest, APoolThatIsGoneOrEmptiedIsNotMadeAnew) {
  const std::string id = Serve(Options());
  std::filesystem::remove(pool_);
  const auto refused = AllOf(HasSubstr("no pool at " + pool_), HasSubstr(id),
                             HasSubstr(file_.path()), HasSubstr("remove that file"));
  EXPECT_THAT(Serve(Options()), refused);
  EXPECT_FALSE(std::filesystem::exists(pool_));
  Write(pool_, "");
  EXPECT_THAT(Serve(Options()), AllOf(refused, HasSubstr("an empty file")));
  EXPECT_EQ(std::filesystem::file_size(pool_), 0);
  // Done as the message advises.
  std::filesystem::remove(file_.path());
  const std::string anew = Serve(Options());
  EXPECT_EQ(*file_.Read(), anew);
}

TEST_F(PoolIdentityTest, AnotherPoolIsRefusedAndStaysAsItIs) {
  const std::string id = Serve(Options());
  std::filesystem::rename(pool_, dir_ / "kept");
  StoreOptions unwatched = Options();
  unwatched.pool_identity_file.clear();
  const std::string other = Serve(unwatched);
  ASSERT_NE(other, id);
  EXPECT_THAT(Serve(Options()),
              AllOf(HasSubstr(pool_), HasSubstr(id), HasSubstr(other), HasSubstr(file_.path())));
  EXPECT_EQ(Serve(unwatched), other);
  std::filesystem::rename(dir_ / "kept", pool_);
  EXPECT_EQ(Serve(Options()), id);
}

TEST_F(PoolIdentityTest, OneThatCannotBeWrittenIsAnError) {
  StoreOptions options = Options();
  options.pool_identity_file = dir_ / "no/folder";
  EXPECT_THAT(Serve(options), AllOf(HasSubstr("cannot write"), HasSubstr("no/folder")));
  // The pool was created; it is used once the file can be written.
  const std::string anew = Serve(Options());
  EXPECT_EQ(*file_.Read(), anew);
}

TEST_F(PoolIdentityTest, APoolThatMustExistIsNotCreated) {
  StoreOptions options = Options();
  options.pool_identity_file.clear();
  options.pool_must_exist = true;
  EXPECT_THAT(Serve(options),
              AllOf(HasSubstr("no pool at " + pool_), HasSubstr("pool_must_exist")));
  EXPECT_EQ(dir_.Names(), "");
  Write(pool_, "");
  EXPECT_THAT(Serve(options), AllOf(HasSubstr("an empty file"), HasSubstr("pool_must_exist")));
  options.pool_must_exist = false;
  auto store = Store::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->info().replaced_empty_file);
  ASSERT_TRUE((*store)->Close().ok());
  options.pool_must_exist = true;
  store = Store::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_FALSE((*store)->info().replaced_empty_file);
}

TEST_F(PoolIdentityTest, AVolatileEngineHasNone) {
  StoreOptions options;
  options.engine = "dram";
  options.pool_must_exist = true;
  EXPECT_EQ(Store::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.pool_must_exist = false;
  options.pool_identity_file = file_.path();
  EXPECT_EQ(Store::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lodgekv
