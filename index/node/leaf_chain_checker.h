// Shared by the Check of every engine with a chain of leaves: the report, the expected next leaf,
// the check of a pair's record.
#pragma once

#include <utility>

#include "absl/strings/str_cat.h"
#include "index/engine.h"
#include "index/node/checked_word.h"
#include "index/node/codec.h"
#include "index/node/key_word.h"
#include "index/node/record.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

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

  // Restarts the walk at `leaf`, since the chain may have changed meanwhile.
  void TakeUpAt(pmem::Offset leaf) { chain_ = leaf; }

  // The index has `leaf` next. False: the chain has another one.
  bool ExpectLeaf(pmem::Offset leaf) {
    if (leaf == chain_) return true;
    Problem("the chain leads to ", chain_, ", the index to leaf ", leaf);
    return false;
  }

  // For the whole chain: it has been followed past the last leaf.
  void ExpectEnd() {
    if (chain_ != 0) Problem("the chain goes on behind the last leaf, to offset ", chain_);
  }

  // Checks a pair in the leaf at `where`, and its record. True: the record is to be counted.
  template <class C>
  bool CheckRecordPair(const C& codec, const pmem::Pool& pool, const pmem::RecordSlab& slab,
                       pmem::Offset where, Pair pair) {
    if (!codec.PairIsSound(pair)) Problem("leaf ", where, ": a damaged pair");
    if (!C::IsRecord(pair.value)) return false;
    const pmem::Offset record = C::RecordOf(pair.value);
    RecordView view;
    if (!VerifyRecord(pool, slab, record, &view)) {
      Problem("leaf ", where, ": damaged record at ", record);
      return false;
    }
    if (SlotHash(view.key) != codec.HashOf(pair) || KeyWord(view.key, 0) != pair.key) {
      Problem("leaf ", where, ": the record at ", record, " has another key");
    }
    return true;
  }

  CheckReport report_;

 private:
  static constexpr size_t kProblemsKept = 100;

  pmem::Offset chain_ = 0;
};

}  // namespace lodgekv
