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
      {"[::1]:", "[::1]:7411"},
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

TEST(HasImpossiblePortTest, IsOneThatGrpcWouldTakeForAnother) {
  for (const char* address : {"localhost:65536", "127.0.0.1:72947", "[::1]:99999", "h:4294974707",
                              "h:18446744073709551616", "dns:h:65536", "dns:///h:65536"}) {
    EXPECT_TRUE(HasImpossiblePort(address)) << address;
  }
  for (const char* address : {"", "localhost", "localhost:0", "localhost:65535", "[::1]:7411",
                              "h:0000080", "h:https", "h:", "unix:/run/x:99999", "dns:h:65535"}) {
    EXPECT_FALSE(HasImpossiblePort(address)) << address;
  }
}

}  // namespace
}  // namespace lodgekv::lodgectl
