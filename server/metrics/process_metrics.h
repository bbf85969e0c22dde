// The operating system's figures about this process, under the names that Prometheus's own client
// libraries use.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace lodgekv::server {

void AppendProcessMetrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace lodgekv::server
