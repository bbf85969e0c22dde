#include "base/file_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace lodgekv {
namespace {

using ::testing::HasSubstr;

class FileReaderTest : public ::testing::Test {
 protected:
  FileReaderTest() {
    std::string pattern = ::testing::TempDir() + "file_reader_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~FileReaderTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }

  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }

  static std::string Complaint(const std::string& path, FileKind kind, size_t max_bytes = 1000) {
    return std::string(ReadWholeFile(path, kind, max_bytes).status().message());
  }

  std::filesystem::path folder_;
};

TEST_F(FileReaderTest, ReadsAllOfAFileUpToTheBound) {
  const std::string content = std::string(200'000, 'x') + std::string("\0\n\xff", 3);
  const std::string path = Write("file", content);
  for (const FileKind kind : {FileKind::kRegular, FileKind::kAny}) {
    EXPECT_EQ(ReadWholeFile(path, kind, content.size()).value(), content);
    EXPECT_THAT(Complaint(path, kind, content.size() - 1),
                HasSubstr("is larger than 200002 bytes"));
  }
  EXPECT_EQ(ReadWholeFile(Write("empty", ""), FileKind::kRegular, 0).value(), "");
}

TEST_F(FileReaderTest, SaysWhyAFileCannotBeRead) {
  for (const FileKind kind : {FileKind::kRegular, FileKind::kAny}) {
    EXPECT_EQ(Complaint(Path("none"), kind), "cannot be read: No such file or directory");
    EXPECT_EQ(Complaint(folder_, kind), "is a directory; it must be a regular file");
  }
}

TEST_F(FileReaderTest, ADeviceThatNeverEndsIsRefusedOrReadToTheBound) {
  EXPECT_THAT(Complaint("/dev/zero", FileKind::kRegular), HasSubstr("a pipe or a device"));
  EXPECT_THAT(Complaint("/dev/zero", FileKind::kAny), HasSubstr("is larger than 1000 bytes"));
}

TEST_F(FileReaderTest, APipeIsWaitedForOnlyWhereThatIsAsked) {
  const std::string path = Path("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Complaint(path, FileKind::kRegular), HasSubstr("a pipe or a device"));
  std::thread writer([&] { std::ofstream(path) << "late"; });
  EXPECT_EQ(ReadWholeFile(path, FileKind::kAny, 1000).value(), "late");
  writer.join();
}

}  // namespace
}  // namespace lodgekv
