// For tests: a directory that is removed with its owner.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lodgekv::pmem {

class TempDir {
 public:
  // In a memory file system, where creating a pool is fast.
  static std::string Memory() { return "/dev/shm"; }
  // On a disk, if the machine has one.
  static std::string Disk() {
    const char* given = std::getenv("TMPDIR");
    return given != nullptr ? given : "/tmp";
  }

  explicit TempDir(const std::string& parent = Memory()) : path_(parent + "/lodgekv_test_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // The names of the files in it, joined by blanks.
  std::string Names() const {
    std::string names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names += (names.empty() ? "" : " ") + entry.path().filename().string();
    }
    return names;
  }

 private:
  std::string path_;
};

}  // namespace lodgekv::pmem
