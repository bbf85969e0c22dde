// What the operating system knows of this process, under the names that Prometheus's own client
// libraries give it.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace lodgekv::server {

void AppendProcessMetrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace lodgekv::server
