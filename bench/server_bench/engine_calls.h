// Requests of one kind made to an engine as the daemon would make them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/server_bench/request_source.h"
#include "index/engine.h"

namespace lodgekv::server_bench {

class EngineCalls {
 public:
  EngineCalls(Engine& engine, CallKind kind) : engine_(engine), kind_(kind) {}

  // Of a scan the first record is where it begins, and their count is its limit.
  bool Make(const std::vector<Record>& records);

 private:
  bool Write(const std::vector<Record>& records);
  bool Read(const std::vector<Record>& records);
  bool Scan(const std::vector<Record>& records);

  Engine& engine_;
  const CallKind kind_;
  std::vector<WriteOp> ops_;
  std::vector<WriteResult> written_;
  std::vector<std::string_view> keys_;
  std::vector<ReadResult> read_;
  std::string page_;
};

}  // namespace lodgekv::server_bench
