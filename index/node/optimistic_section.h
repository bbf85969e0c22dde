// Annotations of optimistic readers for ThreadSanitizer; nothing in any other build.
//
// A reader between VersionLock::ReadBegin and Validate races with writers on purpose: what it read
// is used only if nothing was published meanwhile. The same holds for a reader of bytes with a
// checksum. In an OptimisticSection the thread's accesses are ignored. Writers are never in one, so
// races between two of them are still detected, and so are reads that were not validated.
#pragma once

#include "absl/base/dynamic_annotations.h"

namespace lodgekv {

// A scope. Inside it, only memory of the thread itself may be written.
class [[maybe_unused]] OptimisticSection {
 public:
  OptimisticSection() { ABSL_ANNOTATE_IGNORE_READS_BEGIN(); }
  ~OptimisticSection() { ABSL_ANNOTATE_IGNORE_READS_END(); }
  OptimisticSection(const OptimisticSection&) = delete;
  OptimisticSection& operator=(const OptimisticSection&) = delete;

  // A scope within a section that reads only validated data: accesses are checked again.
  class [[maybe_unused]] Validated {
   public:
    Validated() { ABSL_ANNOTATE_IGNORE_READS_END(); }
    ~Validated() { ABSL_ANNOTATE_IGNORE_READS_BEGIN(); }
    Validated(const Validated&) = delete;
    Validated& operator=(const Validated&) = delete;
  };
};

}  // namespace lodgekv
