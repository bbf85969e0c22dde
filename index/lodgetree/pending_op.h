// One operation on its way through Write.
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
  // From here on set where the operation comes to it.
  StagedPair<C> staged;  // of a delete: the pair that its tombstone says
  bool tombstone;
  bool apply;
  uint64_t sequence;
  uint32_t log;
  // Of a group, as of the round in hand.
  uint8_t leaf;       // of its node, whose range has the key
  int8_t buffered;    // the pair of its key in the Buffer Part, or -1
  bool done = false;  // the round takes it
};

}  // namespace lodgekv::lodgetree
