// A fixture with a temporary folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lodgekv::server {

class TempFolderTest : public ::testing::Test {
 protected:
  explicit TempFolderTest(const std::string& parent = ::testing::TempDir()) {
    std::string path = parent + "/lodgekv_server_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr) << path;
    directory_ = path;
  }
  ~TempFolderTest() override {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }

  std::filesystem::path directory_;
};

}  // namespace lodgekv::server
