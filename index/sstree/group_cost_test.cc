// Fences of groups.
#include <gtest/gtest.h>

#include "index/node/group_cost_test_util.h"
#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

constexpr char kLeafSize[] = "subnodes";

class GroupCostTest : public ::testing::TestWithParam<GroupLimits> {};

TEST_P(GroupCostTest, AGroupSharesItsFences) {
  GroupCost(GetEngineInfo(), kLeafSize, GetParam()).ExpectWithinLimits();
}

// Measured values, rounded up. An atomic batch has three fences more: two for its intent and one
// for its end. A single put is not a group.
constexpr auto kPmem = GroupMedium::kPmem;
constexpr auto kFile = GroupMedium::kFile;
constexpr GroupLimits kLimits[] = {
    {kPmem, 2, GroupOrder::kRandom, false, {1.7, 2.6, 7.3, 26}},
    {kPmem, 2, GroupOrder::kRandom, true, {1.7, 5.6, 10.3, 29}},
    {kPmem, 2, GroupOrder::kAscending, false, {1.5, 2.4, 5.1, 5.2}},
    {kPmem, 2, GroupOrder::kAscending, true, {1.5, 5.4, 8.2, 8.2}},
    {kPmem, 4, GroupOrder::kRandom, false, {1.7, 2.6, 7.8, 26}},
    {kPmem, 4, GroupOrder::kRandom, true, {1.7, 5.6, 10.8, 29}},
    {kPmem, 4, GroupOrder::kAscending, false, {1.5, 2.2, 9, 9.2}},
    {kPmem, 4, GroupOrder::kAscending, true, {1.5, 5.2, 12, 12.2}},
    {kFile, 2, GroupOrder::kRandom, false, {2.2, 2.6, 4.6, 5.4}},
    {kFile, 2, GroupOrder::kRandom, true, {2.2, 5.6, 7.6, 8.5}},
    {kFile, 2, GroupOrder::kAscending, false, {2, 2.4, 5.1, 5.2}},
    {kFile, 2, GroupOrder::kAscending, true, {2, 5.4, 8.2, 8.2}},
    {kFile, 4, GroupOrder::kRandom, false, {2.2, 2.6, 4.9, 5.5}},
    {kFile, 4, GroupOrder::kRandom, true, {2.2, 5.6, 8, 8.6}},
    {kFile, 4, GroupOrder::kAscending, false, {2, 2.2, 9, 9.2}},
    {kFile, 4, GroupOrder::kAscending, true, {2, 5.2, 12, 12.2}},
};

INSTANTIATE_TEST_SUITE_P(Groups, GroupCostTest, ::testing::ValuesIn(kLimits),
                         [](const auto& test) { return test.param.Name(kLeafSize); });

}  // namespace
}  // namespace lodgekv::sstree
