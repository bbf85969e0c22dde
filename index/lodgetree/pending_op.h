// The state of one operation during Write.
#pragma once

#include <cstdint>

#include "index/engine.h"
#include "index/node/staged_pair.h"

namespace lodgekv::lodgetree {

template <class C>
struct PendingOp {
  const WriteOp* op;
  WriteResult* result;
  typename C::Key key;
  // The following are set in the course of the operation.
  StagedPair<C> staged;  // of a delete: the pair that its tombstone says
  bool tombstone;
  bool apply;
  uint64_t sequence;
  uint32_t log;
  // In a group, for the current round.
  uint8_t leaf;       // of its node, whose range has the key
  int8_t buffered;    // the pair of its key in the Buffer Part, or -1
  bool done = false;  // the round includes it
};

}  // namespace lodgekv::lodgetree
