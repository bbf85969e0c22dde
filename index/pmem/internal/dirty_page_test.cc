#include "index/pmem/internal/dirty_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <string>

#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

// What the kernel would write of the mapping at `base`, in kB.
unsigned DirtyKilobytes(const void* base) {
  char begin[17] = {};
  std::to_chars(begin, begin + 16, reinterpret_cast<uintptr_t>(base), 16);
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  while (std::getline(smaps, line) && line.rfind(std::string(begin) + "-", 0) != 0) {
  }
  while (std::getline(smaps, line) && line.rfind("Private_Dirty:", 0) != 0) {
    if (line.rfind("VmFlags:", 0) == 0) return 0;
  }
  return static_cast<unsigned>(std::stoul(line.substr(line.find(':') + 1)));
}

TEST(DirtyPageTest, MakesACleanPageDirtyAndKeepsItsContent) {
  constexpr size_t kBytes = 2 * 4096;
  TempDir dir(TempDir::Disk());
  const int fd = open((dir / "file").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(posix_fallocate(fd, 0, kBytes), 0);
  void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(base, MAP_FAILED);
  auto* words = static_cast<uint64_t*>(base);
  words[1] = 7;
  ASSERT_EQ(msync(base, kBytes, MS_SYNC), 0);
  if (DirtyKilobytes(base) == 0) {  // a memory file system has no clean pages
    DirtyPage(&words[1]);
    EXPECT_EQ(DirtyKilobytes(base), 4U);
  }
  EXPECT_EQ(words[1], 7U);
  munmap(base, kBytes);
  close(fd);
}

}  // namespace
}  // namespace lodgekv::pmem
