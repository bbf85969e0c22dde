// A progress line on a terminal; nothing anywhere else.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace lodgekv::lodgectl {

class Progress {
 public:
  // total_bytes 0: not known. Draws on stderr if that is a terminal.
  explicit Progress(uint64_t total_bytes);
  // Removes the line, so that later output starts clean.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(uint64_t bytes, uint64_t records);

 private:
  const uint64_t total_bytes_;
  const bool visible_;
  const absl::Time start_;
  absl::Time next_;
};

}  // namespace lodgekv::lodgectl
