// What the Check of every engine with a chain of leaves keeps: the report, and the leaf that must
// come next.
#pragma once

#include <utility>

#include "absl/strings/str_cat.h"
#include "index/engine.h"
#include "index/node/checked_word.h"
#include "index/pmem/medium.h"

namespace lodgekv {

class LeafChainChecker {
 protected:
  template <class... Parts>
  void Problem(const Parts&... parts) {
    ++report_.problem_count;
    if (report_.problems.size() < kProblemsKept) {
      report_.problems.push_back(absl::StrCat(parts...));
    }
  }

  void Follow(const pmem::Word& next) {
    if (!ReadChecked(next.Load(), &chain_)) Problem("a leaf pointer with wrong check bits");
  }

  // The index says that `leaf` comes next. False: the chain says otherwise.
  bool ExpectLeaf(pmem::Offset leaf) {
    if (leaf == chain_) return true;
    Problem("the chain leads to ", chain_, ", the index to leaf ", leaf);
    return false;
  }

  // Of the whole chain: it has been followed behind the last leaf.
  void ExpectEnd() {
    if (chain_ != 0) Problem("the chain goes on behind the last leaf, to offset ", chain_);
  }

  CheckReport report_;

 private:
  static constexpr size_t kProblemsKept = 100;

  pmem::Offset chain_ = 0;
};

}  // namespace lodgekv
