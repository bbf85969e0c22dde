// The core workloads of YCSB (Cooper et al., Benchmarking Cloud Serving Systems with YCSB, 2010):
// what share of each has which operation, and which records it chooses.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "client/workload/random.h"
#include "client/workload/zipfian.h"

namespace lodgekv::workload {

enum class YcsbOperation : uint8_t { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };
inline constexpr size_t kYcsbOperations = 5;
std::string_view NameOf(YcsbOperation operation);

// kZipfian: some records are popular, scattered over all. kLatest: the younger, the more popular.
enum class YcsbDistribution : uint8_t { kUniform, kZipfian, kLatest };
std::string_view NameOf(YcsbDistribution distribution);

struct YcsbWorkload {
  char letter = 'a';
  std::array<unsigned, kYcsbOperations> percent;  // of each operation
  YcsbDistribution distribution = YcsbDistribution::kZipfian;
};

// Items of a scan: uniform from 1 to this.
inline constexpr uint64_t kYcsbMostScanned = 100;

// 'a' to 'f'.
const YcsbWorkload& WorkloadOf(char letter);

// Draws one thread's operations and records. Not thread-safe.
class YcsbChooser {
 public:
  // Records are numbered in the order of their insertion; `loaded` are there from the start.
  YcsbChooser(const YcsbWorkload& workload, uint64_t loaded, uint64_t seed)
      : workload_(workload), loaded_(loaded), random_(seed) {}

  YcsbOperation NextOperation();
  // Of the loaded records, so that the popular ones stay the same; kLatest: of all `known` ones.
  uint64_t NextRecord(uint64_t known);
  uint64_t NextScanLength() { return 1 + random_.Below(kYcsbMostScanned); }

 private:
  // YCSB draws ranks of so many items whatever the count, and hashes them to records: the share of
  // the most popular record does not depend on it.
  static constexpr uint64_t kScatteredRanks = 10'000'000'000;

  const YcsbWorkload workload_;
  const uint64_t loaded_;
  Random random_;
  const Zipfian scattered_{kScatteredRanks};
};

}  // namespace lodgekv::workload
