// Detects the medium of a pool, and how stores become durable there.
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

// The observed properties of the medium; separate from MediumClassOf so that tests can use any
// combination.
struct MediumFacts {
  bool device = false;       // every part is a devdax device, which is mapped synchronously
  bool cxl = false;          // some part is behind a CXL driver
  bool ram = false;          // some devdax device is of volatile memory
  bool synchronous = false;  // MAP_SYNC is in effect for the whole mapping
  bool forced = false;       // PMEM_IS_PMEM_FORCE=1
  bool memory_file = false;  // some part is on tmpfs, ramfs or hugetlbfs
  bool auto_flush = false;   // eADR: caches are within the power-fail domain
};

MediumFacts SeeMedium(const PoolPath& pool, const void* base, size_t bytes);
MediumClass MediumClassOf(const MediumFacts& facts);
// Decides by a device's place in sysfs. Ranges of persistent memory are below an NVDIMM bus, also
// those of CXL; other devdax devices are volatile memory. Empty or unknown: neither.
bool IsBehindCxl(std::string_view place);
bool IsRam(std::string_view place);

// Whether `path`, or its folder if it does not exist, is on tmpfs, ramfs or hugetlbfs.
bool OnMemoryFileSystem(const std::string& path);

// FailedPrecondition if the medium is volatile and that was not allowed.
absl::Status CheckMediumAllowed(const PoolOptions& options, MediumClass medium_class);

// The line write-back of this processor: clwb, otherwise clflushopt, otherwise clflush.
FlushMode ProcessorFlushMode();

// Opens each part of a pool that is mapped at `base`, for syncing.
absl::StatusOr<std::unique_ptr<FileSync>> MakeFileSync(const PoolOptions& options,
                                                       const PoolPath& pool, char* base);

// Creates the Medium that makes stores durable. `file_sync`: of an ordinary file.
std::unique_ptr<Medium> MakeMedium(const PoolOptions& options, MediumClass medium_class,
                                   FileSync* file_sync);

// One sentence: what a durable store survives.
std::string DurabilityDetail(MediumClass medium_class, bool process_durability);

}  // namespace lodgekv::pmem
