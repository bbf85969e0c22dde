#include "client/workload/ycsb_workload.h"

#include <algorithm>

namespace lodgekv::workload {
namespace {

constexpr auto kZipfian = YcsbDistribution::kZipfian;

// Percent of reads, updates, inserts, scans, read-modify-writes.
constexpr std::array<YcsbWorkload, 6> kWorkloads = {{
    {'a', {50, 50, 0, 0, 0}, kZipfian},
    {'b', {95, 5, 0, 0, 0}, kZipfian},
    {'c', {100, 0, 0, 0, 0}, kZipfian},
    {'d', {95, 0, 5, 0, 0}, YcsbDistribution::kLatest},
    {'e', {0, 0, 5, 95, 0}, kZipfian},
    {'f', {50, 0, 0, 0, 50}, kZipfian},
}};

}  // namespace

std::string_view NameOf(YcsbOperation operation) {
  constexpr std::array<std::string_view, kYcsbOperations> kNames = {"read", "update", "insert",
                                                                    "scan", "read_modify_write"};
  return kNames[static_cast<size_t>(operation)];
}

std::string_view NameOf(YcsbDistribution distribution) {
  constexpr std::array<std::string_view, 3> kNames = {"uniform", "zipfian", "latest"};
  return kNames[static_cast<size_t>(distribution)];
}

const YcsbWorkload& WorkloadOf(char letter) {
  return kWorkloads[static_cast<size_t>(std::clamp(letter, 'a', 'f') - 'a')];
}

YcsbOperation YcsbChooser::NextOperation() {
  uint64_t left = random_.Below(100);
  size_t operation = 0;
  while (left >= workload_.percent[operation]) left -= workload_.percent[operation++];
  return static_cast<YcsbOperation>(operation);
}

uint64_t YcsbChooser::NextRecord(uint64_t known) {
  switch (workload_.distribution) {
    case YcsbDistribution::kZipfian: return Scale(Mix(scattered_.Draw(random_)), loaded_);
    case YcsbDistribution::kLatest: return known - Zipfian(known).Draw(random_);
    case YcsbDistribution::kUniform: break;
  }
  return random_.Below(loaded_);
}

}  // namespace lodgekv::workload
