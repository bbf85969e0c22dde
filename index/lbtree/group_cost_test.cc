// Fences of groups.
#include <gtest/gtest.h>

#include "index/lbtree/lbtree_test_util.h"
#include "index/node/group_cost_test_util.h"

namespace lodgekv::lbtree {
namespace {

constexpr char kLeafSize[] = "leaf_blocks";

class GroupCostTest : public ::testing::TestWithParam<GroupLimits> {};

TEST_P(GroupCostTest, AGroupSharesItsFences) {
  GroupCost(GetEngineInfo(), kLeafSize, GetParam()).ExpectWithinLimits();
}

// Measured values, rounded up. An atomic batch has three fences more: two for its intent and one
// for its end. A single put is not a group.
constexpr auto kPmem = GroupMedium::kPmem;
constexpr auto kFile = GroupMedium::kFile;
constexpr GroupLimits kLimits[] = {
    {kPmem, 1, GroupOrder::kRandom, false, {1.5, 2.5, 6.5, 23}},
    {kPmem, 1, GroupOrder::kRandom, true, {1.5, 5.5, 9.5, 26}},
    {kPmem, 1, GroupOrder::kAscending, false, {1.5, 3, 3, 3}},
    {kPmem, 1, GroupOrder::kAscending, true, {1.5, 6, 6, 6.1}},
    {kPmem, 2, GroupOrder::kRandom, false, {1.5, 2.5, 6.5, 23}},
    {kPmem, 2, GroupOrder::kRandom, true, {1.5, 5.5, 9.5, 26}},
    {kPmem, 2, GroupOrder::kAscending, false, {1.5, 3.5, 3.5, 3.5}},
    {kPmem, 2, GroupOrder::kAscending, true, {1.5, 6.5, 6.5, 6.5}},
    {kFile, 1, GroupOrder::kRandom, false, {2.2, 3, 4, 5}},
    {kFile, 1, GroupOrder::kRandom, true, {2.2, 6, 7.1, 8}},
    {kFile, 1, GroupOrder::kAscending, false, {2.1, 3, 3, 3}},
    {kFile, 1, GroupOrder::kAscending, true, {2.1, 6, 6, 6.1}},
    {kFile, 2, GroupOrder::kRandom, false, {2.1, 3, 4, 5}},
    {kFile, 2, GroupOrder::kRandom, true, {2.1, 6, 7, 8}},
    {kFile, 2, GroupOrder::kAscending, false, {2.1, 4, 4, 4}},
    {kFile, 2, GroupOrder::kAscending, true, {2.1, 7, 7, 7}},
};

INSTANTIATE_TEST_SUITE_P(Groups, GroupCostTest, ::testing::ValuesIn(kLimits),
                         [](const auto& test) { return test.param.Name(kLeafSize); });

}  // namespace
}  // namespace lodgekv::lbtree
