// Finds out what a pool lies on, and how stores become durable there.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/pmem/internal/file_sync.h"
#include "index/pmem/medium.h"
#include "index/pmem/pool.h"
#include "index/pmem/pool_path.h"

namespace lodgekv::pmem {

// What can be seen of the medium; apart from MediumClassOf so that tests can ask for any
// combination.
struct MediumFacts {
  bool device = false;       // every part is a devdax device, which is mapped synchronously
  bool cxl = false;          // some part is behind a CXL driver
  bool ram = false;          // some devdax device is of volatile memory
  bool synchronous = false;  // MAP_SYNC is in force for the whole mapping
  bool forced = false;       // PMEM_IS_PMEM_FORCE=1
  bool memory_file = false;  // some part is on tmpfs, ramfs or hugetlbfs
  bool auto_flush = false;   // eADR: caches are within the power-fail domain
};

MediumFacts SeeMedium(const PoolPath& pool, const void* base, size_t bytes);
MediumClass MediumClassOf(const MediumFacts& facts);
// By a device's place in sysfs. The ranges of persistent memory stand below an NVDIMM bus, those of
// CXL, too; other devdax devices are of volatile memory. Empty, not known: neither.
bool IsBehindCxl(std::string_view place);
bool IsRam(std::string_view place);

// Whether what lies at `path`, or would in its folder, is on tmpfs, ramfs or hugetlbfs.
bool OnMemoryFileSystem(const std::string& path);

// FailedPrecondition when the medium is volatile and that was not allowed.
absl::Status CheckMediumAllowed(const PoolOptions& options, MediumClass medium_class);

// The line write-back of this processor: clwb, else clflushopt, else clflush.
FlushMode ProcessorFlushMode();

// Opens each part of a pool that is mapped at `base`, for syncing.
absl::StatusOr<std::unique_ptr<FileSync>> MakeFileSync(const PoolOptions& options,
                                                       const PoolPath& pool, char* base);

// How to make stores durable on a medium. `file_sync`: of an ordinary file.
std::unique_ptr<Medium> MakeMedium(const PoolOptions& options, MediumClass medium_class,
                                   FileSync* file_sync);

// One sentence: what a durable store survives.
std::string DurabilityDetail(MediumClass medium_class, bool process_durability);

}  // namespace lodgekv::pmem
