// The state of one operation during Write.
#pragma once

#include <cstdint>

#include "index/engine.h"
#include "index/node/staged_pair.h"

namespace lodgekv {
template <class C>
struct InnerNode;
}  // namespace lodgekv

namespace lodgekv::lodgetree {

template <class C>
struct LastLevelNode;

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
  uint32_t record_crc;  // of the record that its log entry names
  uint32_t log;
  // Where the search for the key ended; the lock proves whether that is still valid. Until it has
  // ended: the version is that of the node's parent.
  LastLevelNode<C>* seen_node = nullptr;
  uint64_t seen_version = 0;
  const InnerNode<C>* seen_parent;
  // The node that covers the key, locked, for as long as `leaf` and `hits` are valid there.
  LastLevelNode<C>* node = nullptr;
  uint32_t hits = 0;     // buffered pairs that may have the key
  uint32_t targets = 0;  // leaves that a drain for it takes; 0: not chosen
  uint8_t leaf = 0;      // whose range has the key
  // In a group, for the current round.
  int8_t buffered;    // the pair of its key in the Buffer Part, or -1
  bool done = false;  // the round includes it

  // Call on a new PendingOp.
  void Begin(const WriteOp& its_op, const typename C::Key& its_key, WriteResult* its_result) {
    *its_result = {};
    op = &its_op;
    result = its_result;
    key = its_key;
  }
};

}  // namespace lodgekv::lodgetree
