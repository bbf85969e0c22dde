// Times as protobuf timestamps.
#pragma once

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>

namespace lodgekv::server {

inline void SetTimestamp(uint64_t unix_ms, google::protobuf::Timestamp* timestamp) {
  timestamp->set_seconds(static_cast<int64_t>(unix_ms / 1000));
  timestamp->set_nanos(static_cast<int32_t>(unix_ms % 1000 * 1'000'000));
}

}  // namespace lodgekv::server
