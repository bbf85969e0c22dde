#include "server/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

namespace lodgekv::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

void Append(std::vector<MetricFamily>& families, std::string name, std::string help,
            MetricType type, double value) {
  prometheus::ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  families.push_back({std::move(name), std::move(help), type, {std::move(metric)}});
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The second number of /proc/self/statm, in pages.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The descriptor that lists them is one of them, and is not counted.
double OpenFiles() {
  std::error_code error;
  double count = -1;
  std::filesystem::directory_iterator file("/proc/self/fd", error);
  while (!error && file != std::filesystem::directory_iterator()) {
    ++count;
    file.increment(error);
  }
  return count;
}

double MostFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

void AppendProcessMetrics(std::vector<MetricFamily>& families) {
  Append(families, "process_cpu_seconds_total", "CPU time of the process, user and system",
         MetricType::Counter, CpuSeconds());
  Append(families, "process_resident_memory_bytes",
         "Resident memory of the process, including mapped pages of the pool", MetricType::Gauge,
         ResidentBytes());
  Append(families, "process_open_fds", "Open file descriptors of the process", MetricType::Gauge,
         OpenFiles());
  Append(families, "process_max_fds", "Most file descriptors that the process may open",
         MetricType::Gauge, MostFiles());
}

}  // namespace lodgekv::server
