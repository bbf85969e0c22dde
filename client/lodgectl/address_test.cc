#include "client/lodgectl/address.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lodgekv::lodgectl {
namespace {

TEST(WithPortTest, AddsTheUsualOneWhereThereIsNone) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"localhost", "localhost:7411"},
      {"localhost:", "localhost:7411"},
      {"10.0.0.1", "10.0.0.1:7411"},
      {"::1", "[::1]:7411"},
      {"[::1]", "[::1]:7411"},
      {"localhost:1", "localhost:1"},
      {"[::1]:1", "[::1]:1"},
      {"unix:/run/x", "unix:/run/x"},
      {"unix:x", "unix:x"},
      {"dns:///host", "dns:///host"},
      {"ipv4:127.0.0.1:1", "ipv4:127.0.0.1:1"},
      {"", ""},
  };
  for (const auto& [given, expected] : cases) {
    EXPECT_EQ(WithPort(given, "127.0.0.1:7411"), expected) << given;
  }
}

}  // namespace
}  // namespace lodgekv::lodgectl
