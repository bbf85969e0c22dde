#include "server/tls/memory_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

namespace lodgekv::server {
namespace {

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

time_t ModifiedAt(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mtime : 0;
}

TEST(MemoryFileTest, IsReadUnderOnePathAfterEachReplace) {
  const auto file = MemoryFile::Create("first");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string path = (*file)->path();
  EXPECT_EQ(ContentOf(path), "first");
  ASSERT_TRUE((*file)->Replace("2nd").ok());
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ(ContentOf(path), "2nd");
  ASSERT_TRUE((*file)->Replace("").ok());
  EXPECT_EQ(ContentOf(path), "");
}

// gRPC compares the times before and after it reads, in whole seconds, and takes 0 for an error.
TEST(MemoryFileTest, EachContentHasItsOwnModificationTime) {
  const auto file = MemoryFile::Create("first");
  ASSERT_TRUE(file.ok()) << file.status();
  time_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const time_t now = ModifiedAt((*file)->path());
    EXPECT_GT(now, last);
    last = now;
    ASSERT_TRUE((*file)->Replace("next").ok());
  }
}

TEST(MemoryFileTest, AReaderFindsACompleteContent) {
  const std::string a(100'000, 'a');
  const std::string b(50'000, 'b');
  const auto file = MemoryFile::Create(a);
  ASSERT_TRUE(file.ok()) << file.status();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) EXPECT_TRUE((*file)->Replace(i % 2 == 0 ? b : a).ok());
    done = true;
  });
  while (!done) {
    const std::string content = ContentOf((*file)->path());
    EXPECT_TRUE(content == a || content == b) << content.size();
  }
  writer.join();
}

}  // namespace
}  // namespace lodgekv::server
