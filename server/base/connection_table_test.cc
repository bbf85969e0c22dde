#include "server/base/connection_table.h"

#include <gtest/gtest.h>

#include <string>

namespace lodgekv::server {
namespace {

TEST(AddressOfTest, LeavesThePortOut) {
  EXPECT_EQ(AddressOf("ipv4:192.0.2.1:4711"), "ipv4:192.0.2.1");
  EXPECT_EQ(AddressOf("ipv6:%5B2001:db8::1%5D:4711"), "ipv6:%5B2001:db8::1%5D");
  EXPECT_EQ(AddressOf("unix:"), "unix:");
  EXPECT_EQ(AddressOf(""), "");
}

TEST(ConnectionTableTest, FindsWhatWasAdded) {
  ConnectionTable table;
  const auto added = table.Add("ipv4:192.0.2.1:1");
  EXPECT_EQ(table.Find("ipv4:192.0.2.1:1"), added);
  EXPECT_NE(table.Find("ipv4:192.0.2.1:2"), added);
  table.Remove(*added);
  EXPECT_NE(table.Find("ipv4:192.0.2.1:1"), added);
  EXPECT_TRUE(table.All().empty());
}

TEST(ConnectionTableTest, ConnectionsOfAnAddressShareTheirPeer) {
  ConnectionTable table;
  const auto one = table.Add("ipv4:192.0.2.1:1");
  auto two = table.Add("ipv4:192.0.2.1:2");
  const auto other = table.Add("ipv4:192.0.2.2:1");
  EXPECT_EQ(one->peer, two->peer);
  EXPECT_NE(one->peer, other->peer);
  EXPECT_EQ(table.ConnectionsOf("ipv4:192.0.2.1"), 2U);
  table.Remove(*two);
  two.reset();
  EXPECT_EQ(table.ConnectionsOf("ipv4:192.0.2.1"), 1U);
  EXPECT_EQ(table.ConnectionsOf("ipv4:192.0.2.9"), 0U);
}

TEST(ConnectionTableTest, AReusedPortIsAnotherConnection) {
  ConnectionTable table;
  const auto before = table.Add("ipv4:192.0.2.1:1");
  const auto after = table.Add("ipv4:192.0.2.1:1");
  table.Remove(*before);
  EXPECT_EQ(table.Find("ipv4:192.0.2.1:1"), after);
}

TEST(ConnectionTableTest, ClientsOfAUnixSocketAreOneConnection) {
  ConnectionTable table;
  EXPECT_EQ(table.Find("unix:"), table.Find("unix:"));
  EXPECT_EQ(table.All().size(), 1U);
}

TEST(ConnectionTableTest, CallsOfAnUnknownConnectionShareOne) {
  ConnectionTable table;
  auto stray = table.Find("ipv4:192.0.2.1:1");
  EXPECT_EQ(table.Find("ipv4:192.0.2.1:1"), stray);
  EXPECT_NE(table.Find("ipv4:192.0.2.1:2"), stray);
  EXPECT_TRUE(table.All().empty());
  const auto added = table.Add("ipv4:192.0.2.1:1");
  EXPECT_EQ(table.Find("ipv4:192.0.2.1:1"), added);
  stray.reset();
  EXPECT_EQ(table.ConnectionsOf("ipv4:192.0.2.1"), 1U);
}

TEST(ConnectionTableTest, PeersAreRemovedWithTheirConnections) {
  ConnectionTable table;
  for (int i = 0; i < 1'000; ++i) {
    table.Remove(*table.Add("ipv4:192.0.2." + std::to_string(i) + ":1"));
  }
  EXPECT_EQ(table.ConnectionsOf("ipv4:192.0.2.7"), 0U);
}

}  // namespace
}  // namespace lodgekv::server
