// What a wrapper refuses, and what it says then.

#include <gmock/gmock.h>

#include <fstream>
#include <stdexcept>

#include "tests/pibench/wrapper.h"

namespace lodgekv::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WrapperErrorTest : public WrapperTest {
 protected:
  // What stderr says when create_tree answers null.
  std::string Refusal(const tree_options_t& options) const {
    ::testing::internal::CaptureStderr();
    const Tree tree = Create(options);
    EXPECT_EQ(tree, nullptr);
    return ::testing::internal::GetCapturedStderr();
  }
};

// What of the exception that `call` throws.
template <class Call>
std::string Thrown(Call call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_P(WrapperErrorTest, NoPoolPath) {
  tree_options_t options = Options();
  options.pool_path.clear();
  EXPECT_THAT(Refusal(options), AllOf(HasSubstr(std::string(GetParam()->name)),
                                      HasSubstr("give PiBench's option --pool_path")));
}

TEST_P(WrapperErrorTest, AFileThatIsNoPool) {
  const tree_options_t options = Options();
  std::ofstream(options.pool_path) << "a file of somebody else";
  EXPECT_THAT(Refusal(options), HasSubstr(options.pool_path));
  std::ifstream file(options.pool_path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "a file of somebody else");
}

TEST_P(WrapperErrorTest, APoolInUse) {
  const Tree first = Create(Options());
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(Refusal(Options()), HasSubstr(Options().pool_path));
  EXPECT_TRUE(Insert(*first, KeyOf(1), KeyOf(2))) << "the first goes on";
}

TEST_P(WrapperErrorTest, APoolOfAnotherKeyFormat) {
  ASSERT_NE(Create(Options(8, 8)), nullptr);
  EXPECT_THAT(Refusal(Options(8, 9)), AllOf(HasSubstr("fixed64"), HasSubstr("bytes")));
}

TEST_P(WrapperErrorTest, SizesOtherThanThoseOfTheTree) {
  const Tree tree = Create(Options(4, 16));
  ASSERT_NE(tree, nullptr);
  const std::string value(16, 'v');
  EXPECT_THAT(Thrown([&] { Insert(*tree, KeyOf(1, 8), value); }),
              AllOf(HasSubstr("insert: a key of 8 bytes"), HasSubstr("keys of 4")));
  EXPECT_THAT(Thrown([&] { Update(*tree, KeyOf(1, 4), value + "v"); }),
              AllOf(HasSubstr("update: a value of 17 bytes"), HasSubstr("values of 16")));
  EXPECT_THAT(Thrown([&] { Remove(*tree, ""); }), HasSubstr("remove: a key of 0 bytes"));
}

// PiBench's buffers have the sizes of this run, so pairs of an earlier one must not reach them.
TEST_P(WrapperErrorTest, AnEarlierRunsPairsOfOtherSizes) {
  {
    const Tree tree = Create(Options(4, 16));
    ASSERT_NE(tree, nullptr);
    ASSERT_TRUE(Insert(*tree, KeyOf(1, 4), std::string(16, 'v')));
  }
  const Tree tree = Create(Options(4, 10));
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(Thrown([&] { Find(*tree, KeyOf(1, 4), 10); }),
              HasSubstr("find: a value of 16 bytes"));
  EXPECT_THAT(Thrown([&] { Scan(*tree, KeyOf(1, 4), 5, 10); }),
              HasSubstr("scan: a value of 16 bytes"));
}

TEST_P(WrapperErrorTest, AFullPool) {
  const Tree tree = Create(Options(8, 1000));
  ASSERT_NE(tree, nullptr);
  const std::string value(1000, 'v');
  uint64_t inserted = 0;
  const std::string thrown = Thrown([&] {
    while (inserted < 100000 && Insert(*tree, KeyOf(inserted), value)) ++inserted;
  });
  EXPECT_THAT(thrown,
              AllOf(HasSubstr("insert"), HasSubstr("--pool_size"), HasSubstr(Options().pool_path)));
  EXPECT_GT(inserted, 1000u);
  EXPECT_EQ(Find(*tree, KeyOf(inserted / 2), 1000), value) << "what was inserted is there";
}

TEST_P(WrapperErrorTest, VariablesThatMeanNothing) {
  for (const char* name :
       {"LODGEKV_INLINE_PAIRS", "LODGEKV_DURABILITY", "LODGEKV_ENGINE_OPTIONS"}) {
    const Variable variable(name, "neither");
    EXPECT_THAT(Refusal(Options()), AllOf(HasSubstr(name), HasSubstr("'neither'")));
  }
  const Variable variable("LODGEKV_ENGINE_OPTIONS", "no_such_option=1");
  EXPECT_THAT(Refusal(Options()), HasSubstr("no_such_option"));
}

TEST_P(WrapperErrorTest, VariablesReachTheStore) {
  const Variable process("LODGEKV_DURABILITY", "process");
  const Variable pairs("LODGEKV_INLINE_PAIRS", "true");
  // Not in memory, where no write is more durable than that.
  const pmem::TempDir disk(pmem::TempDir::Disk());
  tree_options_t options = Options(4, 4);
  options.pool_path = disk / "pool";
  ::testing::internal::CaptureStderr();
  const Tree tree = Create(options);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("created " + options.pool_path), HasSubstr("with inline pairs"),
                    HasSubstr("durability process")));
  ASSERT_NE(tree, nullptr);
  EXPECT_TRUE(Insert(*tree, KeyOf(1, 4), KeyOf(2, 4)));
}

INSTANTIATE_TEST_SUITE_P(Engines, WrapperErrorTest, ::testing::ValuesIn(PersistentEngines()),
                         EngineName);

}  // namespace
}  // namespace lodgekv::test
