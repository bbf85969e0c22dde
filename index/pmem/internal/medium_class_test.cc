#include "index/pmem/internal/medium_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MediumClassTest, IsWhatTheFactsShow) {
  const MediumFacts device{.device = true};
  EXPECT_EQ(MediumClassOf(device), MediumClass::kPmemAdr);
  const MediumFacts fsdax{.synchronous = true};
  EXPECT_EQ(MediumClassOf(fsdax), MediumClass::kPmemAdr);
  // Real persistent memory stays that when it is also forced.
  EXPECT_EQ(MediumClassOf({.synchronous = true, .forced = true}), MediumClass::kPmemAdr);
  EXPECT_EQ(MediumClassOf({.device = true, .auto_flush = true}), MediumClass::kPmemEadr);
  EXPECT_EQ(MediumClassOf({.device = true, .cxl = true}), MediumClass::kCxl);
  EXPECT_EQ(MediumClassOf({.device = true, .cxl = true, .ram = true}), MediumClass::kVolatile);
  EXPECT_EQ(MediumClassOf({.device = true, .ram = true}), MediumClass::kVolatile);
  EXPECT_EQ(MediumClassOf({.device = true, .ram = true, .forced = true}), MediumClass::kPmemAdr);
  EXPECT_EQ(MediumClassOf({.forced = true, .memory_file = true}), MediumClass::kPmemForced);
  EXPECT_EQ(MediumClassOf({.forced = true}), MediumClass::kPmemForced);
  EXPECT_EQ(MediumClassOf({.memory_file = true}), MediumClass::kVolatile);
  EXPECT_EQ(MediumClassOf({}), MediumClass::kFile);
  // eADR of the machine says nothing about a disk.
  EXPECT_EQ(MediumClassOf({.auto_flush = true}), MediumClass::kFile);
  // Without MAP_SYNC a file behind CXL is a file, too.
  EXPECT_EQ(MediumClassOf({.cxl = true}), MediumClass::kFile);
}

// Device paths as of Linux 6.1.
TEST(MediumClassTest, ADeviceIsPersistentBelowAnNvdimmBus) {
  constexpr std::string_view kNvdimm =
      "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/dax0.0/dax0.0";
  constexpr std::string_view kCxlPmem =
      "/sys/devices/platform/ACPI0017:00/root0/nvdimm-bridge0/ndbus0/region0/dax0.1/dax0.0";
  constexpr std::string_view kCxlRam =
      "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0";
  constexpr std::string_view kReserved = "/sys/devices/platform/hmem.0/dax0.0";
  EXPECT_FALSE(IsRam(kNvdimm));
  EXPECT_FALSE(IsRam(kCxlPmem));
  EXPECT_TRUE(IsRam(kCxlRam));
  EXPECT_TRUE(IsRam(kReserved));
  EXPECT_FALSE(IsRam("")) << "not known: as the operator says";
  EXPECT_FALSE(IsBehindCxl(kNvdimm));
  EXPECT_TRUE(IsBehindCxl(kCxlPmem));
  EXPECT_TRUE(IsBehindCxl(kCxlRam));
}

TEST(MediumClassTest, HasItsNameEverywhere) {
  EXPECT_EQ(MediumClassName(MediumClass::kPmemAdr), "pmem-adr");
  EXPECT_EQ(MediumClassName(MediumClass::kPmemEadr), "pmem-eadr");
  EXPECT_EQ(MediumClassName(MediumClass::kPmemForced), "pmem-forced");
  EXPECT_EQ(MediumClassName(MediumClass::kCxl), "cxl");
  EXPECT_EQ(MediumClassName(MediumClass::kFile), "file");
  EXPECT_EQ(MediumClassName(MediumClass::kVolatile), "volatile");
}

std::unique_ptr<Medium> Make(MediumClass medium_class, bool process = false) {
  PoolOptions options;
  options.process_durability = process;
  return MakeMedium(options, medium_class, nullptr);
}

TEST(MediumTest, FlushesAndOrdersAsItsClassNeeds) {
  EXPECT_EQ(Make(MediumClass::kPmemAdr)->mode(), ProcessorFlushMode());
  EXPECT_FALSE(Make(MediumClass::kPmemAdr)->strict_order());
  EXPECT_EQ(Make(MediumClass::kPmemEadr)->mode(), FlushMode::kNone);
  EXPECT_FALSE(Make(MediumClass::kPmemEadr)->strict_order());
  EXPECT_EQ(Make(MediumClass::kPmemForced)->mode(), ProcessorFlushMode());
  EXPECT_FALSE(Make(MediumClass::kPmemForced)->strict_order());
  EXPECT_EQ(Make(MediumClass::kCxl)->mode(), ProcessorFlushMode());
  EXPECT_TRUE(Make(MediumClass::kCxl)->strict_order());
  EXPECT_EQ(Make(MediumClass::kFile)->mode(), FlushMode::kFile);
  EXPECT_TRUE(Make(MediumClass::kFile)->strict_order());
  EXPECT_EQ(Make(MediumClass::kVolatile)->mode(), FlushMode::kNone);
  EXPECT_EQ(Make(MediumClass::kFile, true)->mode(), FlushMode::kNone);
  EXPECT_EQ(Make(MediumClass::kPmemAdr, true)->mode(), FlushMode::kNone);
}

TEST(MediumTest, TellsWhatAWriteSurvives) {
  EXPECT_THAT(DurabilityDetail(MediumClass::kPmemAdr, false), HasSubstr("and a power cut"));
  EXPECT_THAT(DurabilityDetail(MediumClass::kFile, false), HasSubstr("and a power cut"));
  EXPECT_THAT(DurabilityDetail(MediumClass::kFile, true), HasSubstr("not a power cut"));
  EXPECT_THAT(DurabilityDetail(MediumClass::kPmemForced, false), HasSubstr("nothing confirms"));
  EXPECT_THAT(DurabilityDetail(MediumClass::kVolatile, false), Not(HasSubstr("power cut:")));
}

TEST(PoolPathTest, SumsTheSizesOfAPoolset) {
  TempDir dir;
  FILE* set = fopen((dir / "set").c_str(), "w");
  fprintf(set,
          "PMEMPOOLSET\nOPTION SINGLEHDR\n1G /nowhere/a\n  512KiB\t/nowhere/b\n# note\n"
          "1000 /nowhere/c\n2KB /nowhere/d\n");
  fclose(set);
  auto path = PoolPath::Inspect(dir / "set");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(path->kind, PoolPath::Kind::kPoolset);
  ASSERT_EQ(path->parts.size(), 4u);
  EXPECT_EQ(path->parts[1].path, "/nowhere/b");
  EXPECT_EQ(path->bytes(), (uint64_t{1} << 30) + (512 << 10) + 1000 + 2000);
  EXPECT_FALSE(*path->Occupied());
}

}  // namespace
}  // namespace lodgekv::pmem
