// What ThreadSanitizer is told of optimistic readers; nothing in any other build.
//
// A reader between VersionLock::ReadBegin and Validate races with writers on purpose: what it read
// counts only when nothing was published meanwhile. So does one whose bytes carry a checksum. In an
// OptimisticSection the thread's accesses are not watched. Writers are not in one, so two of them
// are still found out, and so is a reader that looks further than it has validated.
#pragma once

#include "absl/base/dynamic_annotations.h"

namespace lodgekv {

// A scope. Inside it, nothing is written but what belongs to the thread.
class [[maybe_unused]] OptimisticSection {
 public:
  OptimisticSection() { ABSL_ANNOTATE_IGNORE_READS_BEGIN(); }
  ~OptimisticSection() { ABSL_ANNOTATE_IGNORE_READS_END(); }
  OptimisticSection(const OptimisticSection&) = delete;
  OptimisticSection& operator=(const OptimisticSection&) = delete;

  // A scope within a section in which only what has been validated is read: it is watched again.
  class [[maybe_unused]] Validated {
   public:
    Validated() { ABSL_ANNOTATE_IGNORE_READS_END(); }
    ~Validated() { ABSL_ANNOTATE_IGNORE_READS_BEGIN(); }
    Validated(const Validated&) = delete;
    Validated& operator=(const Validated&) = delete;
  };
};

}  // namespace lodgekv
