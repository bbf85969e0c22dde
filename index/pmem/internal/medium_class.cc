#include "index/pmem/internal/medium_class.h"

#include <cpuid.h>
#include <fcntl.h>
#include <libpmem.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lodgekv::pmem {
namespace {

// The sysfs path of a file's device, or of the device itself; empty if unknown.
std::string PlaceInSysfs(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return {};
  const bool device = S_ISCHR(st.st_mode);
  const dev_t number = device ? st.st_rdev : st.st_dev;
  std::error_code error;
  const std::filesystem::path node = std::filesystem::canonical(
      absl::StrCat("/sys/dev/", device ? "char/" : "block/", major(number), ":", minor(number)),
      error);
  return error ? std::string() : node.string();
}

// Whether there are mappings that touch [begin, end), and all have the flag `sf`.
bool MappedSynchronously(uintptr_t begin, uintptr_t end) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  bool any = false;
  while (std::getline(smaps, line)) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    char dash = 0;
    std::istringstream head(line);
    if (head >> std::hex >> from >> dash >> to && dash == '-') {
      inside = from < end && to > begin;
    } else if (inside && absl::StartsWith(line, "VmFlags:")) {
      if (!absl::StrContains(line, " sf")) return false;
      any = true;
    }
  }
  return any;
}

}  // namespace

bool OnMemoryFileSystem(const std::string& path) {
  struct statfs fs;
  const std::string folder = std::filesystem::absolute(path).parent_path();
  if (statfs(path.c_str(), &fs) != 0 && statfs(folder.c_str(), &fs) != 0) return false;
  const auto type = static_cast<unsigned long>(fs.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

MediumFacts SeeMedium(const PoolPath& pool, const void* base, size_t bytes) {
  MediumFacts facts;
  facts.device = true;
  for (const PoolPath::Part& part : pool.parts) {
    if (part.kind != PoolPath::Kind::kDevdax) {
      facts.device = false;
      facts.memory_file = facts.memory_file || OnMemoryFileSystem(part.path);
    }
    const std::string place = PlaceInSysfs(part.path);
    facts.cxl = facts.cxl || IsBehindCxl(place);
    facts.ram = facts.ram || (part.kind == PoolPath::Kind::kDevdax && IsRam(place));
  }
  // Asks the kernel, not pmem_is_pmem: that knows what libpmem mapped itself, but no pool of
  // libpmemobj. This takes time in proportion to the pool, so it is done only if it decides.
  const auto begin = reinterpret_cast<uintptr_t>(base);
  facts.synchronous =
      !facts.device && !facts.memory_file && MappedSynchronously(begin, begin + bytes);
  const char* force = std::getenv("PMEM_IS_PMEM_FORCE");
  facts.forced = force != nullptr && std::string_view(force) == "1";
  facts.auto_flush = pmem_has_auto_flush() == 1;
  return facts;
}

bool IsBehindCxl(std::string_view place) {
  return place.find("ACPI0017") != place.npos || place.find("/cxl") != place.npos;
}

bool IsRam(std::string_view place) { return !place.empty() && place.find("/ndbus") == place.npos; }

MediumClass MediumClassOf(const MediumFacts& facts) {
  if (facts.device && facts.ram && !facts.forced) return MediumClass::kVolatile;
  if (facts.device || facts.synchronous) {
    if (facts.cxl) return MediumClass::kCxl;
    return facts.auto_flush ? MediumClass::kPmemEadr : MediumClass::kPmemAdr;
  }
  if (facts.forced) return MediumClass::kPmemForced;
  if (facts.memory_file) return MediumClass::kVolatile;
  return MediumClass::kFile;
}

absl::Status CheckMediumAllowed(const PoolOptions& options, MediumClass medium_class) {
  if (medium_class != MediumClass::kVolatile || options.allow_volatile_medium) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("pool ", options.path,
                   " is on a memory file system, or a device of memory that is not persistent: "
                   "everything is lost when the machine stops; put it on persistent memory or on a "
                   "disk, or allow a volatile medium (allow_volatile_medium)"));
}

FlushMode ProcessorFlushMode() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    if ((ebx & bit_CLWB) != 0) return FlushMode::kClwb;
    if ((ebx & bit_CLFLUSHOPT) != 0) return FlushMode::kClflushopt;
  }
  return FlushMode::kClflush;
}

absl::StatusOr<std::unique_ptr<FileSync>> MakeFileSync(const PoolOptions& options,
                                                       const PoolPath& pool, char* base) {
  std::vector<FileSync::File> files;
  int error = 0;
  for (const PoolPath::Part& part : pool.parts) {
    const int fd = open(part.path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
      // Named as the operator knows it; a pool that is being created still has another name.
      files.push_back({pool.kind == PoolPath::Kind::kFile ? pool.path : part.path, fd});
      continue;
    }
    error = errno;
    break;
  }
  const size_t opened = files.size();
  auto sync = std::make_unique<FileSync>(std::move(files), base, options.on_medium_failure);
  if (opened == pool.parts.size()) return sync;
  return ErrnoStatus(error,
                     absl::StrCat("cannot open ", pool.parts[opened].path, " to sync the pool"));
}

std::unique_ptr<Medium> MakeMedium(const PoolOptions& options, MediumClass medium_class,
                                   FileSync* file_sync) {
  Medium::Options medium;
  const bool ordered_only = options.process_durability || medium_class == MediumClass::kVolatile;
  if (ordered_only) {
    // Every store survives a killed process: there is nothing to flush or to tear.
    medium.mode = FlushMode::kNone;
    medium.fence_instruction = false;
    medium.strict_order = false;
    return std::make_unique<Medium>(medium);
  }
  // Forced: the operator's statement that this is persistent memory behind an x86 cache is trusted.
  medium.strict_order = medium_class == MediumClass::kFile || medium_class == MediumClass::kCxl;
  if (medium_class == MediumClass::kFile) {
    medium.mode = FlushMode::kFile;
    medium.file_fence = file_sync;
  } else {
    medium.mode = medium_class == MediumClass::kPmemEadr ? FlushMode::kNone : ProcessorFlushMode();
  }
  return std::make_unique<Medium>(medium);
}

std::string DurabilityDetail(MediumClass medium_class, bool process_durability) {
  if (medium_class == MediumClass::kVolatile) {
    return "An acknowledged write survives a killed process, not a restart of the machine: the "
           "pool is in memory that is not persistent.";
  }
  if (process_durability) {
    return "An acknowledged write survives a killed process, not a power cut: durability is "
           "\"process\".";
  }
  switch (medium_class) {
    case MediumClass::kPmemAdr:
      return "An acknowledged write survives a killed process and a power cut: cache lines are "
             "written back to persistent memory.";
    case MediumClass::kPmemEadr:
      return "An acknowledged write survives a killed process and a power cut: the processor's "
             "caches are within the power-fail domain.";
    case MediumClass::kPmemForced:
      return "An acknowledged write survives a killed process; a power cut only if the medium is "
             "persistent memory, which PMEM_IS_PMEM_FORCE=1 claims and nothing confirms.";
    case MediumClass::kCxl:
      return "An acknowledged write survives a killed process, and a power cut if the CXL device "
             "keeps its content and flushes its buffers.";
    case MediumClass::kFile:
      return "An acknowledged write survives a killed process and a power cut: what it wrote is "
             "synced to the pool's journal.";
    case MediumClass::kVolatile: break;
  }
  return "Unknown medium.";
}

}  // namespace lodgekv::pmem
