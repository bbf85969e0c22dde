// Human-readable output: aligned rows before the run, and the table after it.
#pragma once

#include <string>
#include <vector>

#include "bench/engine_bench/environment.h"
#include "bench/engine_bench/result.h"

namespace lodgekv::bench {

// "title:" and one indented line for each row.
std::string FormatRows(const std::string& title, const Rows& rows);

// Columns as wide as their widest cell: the first `left` are left-aligned, the others
// right-aligned.
class TextTable {
 public:
  TextTable(std::vector<std::string> header, size_t left);
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Format() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
  const size_t left_;
};

// Columns without information in this run are omitted.
std::string FormatResults(const std::vector<PhaseResult>& results);
std::string FormatRecoveries(const std::vector<RecoveryResult>& results);
std::string FormatWindows(const std::vector<WindowResult>& results);
std::string FormatFullStages(const std::vector<FullStageResult>& results);

}  // namespace lodgekv::bench
