// A lone operation: what comes before its lock, and the fast paths on which nothing is to be
// decided.
#include <algorithm>
#include <bit>

#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/log_fence.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/search_form.h"

namespace lodgekv::lodgetree {

namespace {
// While the node's first lines are on their way: the search tells which mirror is needed.
template <class Node>
void FetchMirrors(const Node* node) {
  const char* at = reinterpret_cast<const char*>(&node->mirrors);
  for (size_t i = 0; i < sizeof(node->mirrors); i += pmem::kLineBytes) Prefetch(at + i);
}
}  // namespace

// Finds the node, and puts the pair into its buffer if that is all there is to do: then `result` is
// set, and what is returned is empty.
template <class C>
template <class Form>
SeenNode<C> LodgeTree<C>::Begin(const WriteOp& op, const Key& key, const WriteOptions& options,
                                WriteResult* result) {
  SeenNode<C> seen;
  seen.node = parts_.tree.template DescendForWrite<Form>(key, &seen.snapshot);
  if (PutIntoBuffer<Form>(op, key, options, seen, result)) return {};
  return seen;
}

// The search comes first: its cache misses overlap with the fence of the previous operation, as
// long as the stores in between fit into the processor's store buffer.
template <class C>
Outcome LodgeTree<C>::WriteOne(const WriteOp& op, WriteResult* result,
                               const WriteOptions& options) {
  const Outcome format = CheckFormat(op, parts_.codec);
  if (format != Outcome::kOk) {
    *result = {format, false, 0};
    return format;
  }
  const Key key = C::MakeKey(op.key);
  const SeenNode<C> seen = RunBySearchForm(
      [](auto form, LodgeTree* tree, const WriteOp* its_op, const Key* its_key,
         const WriteOptions* its_options, WriteResult* its_result) {
        return tree->Begin<decltype(form)>(*its_op, *its_key, *its_options, its_result);
      },
      this, &op, &key, &options, result);
  if (seen.node == nullptr) return result->outcome;
  if (!C::kRecords && DeleteInBuffer(op, key, seen, result)) return result->outcome;
  FetchCurrent(op, key, seen.node);
  return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] {
    PendingOp<C> pending;
    pending.Begin(op, key, result);
    const Outcome outcome = Stage(&pending);
    return outcome == Outcome::kOk ? WriteGroup({&pending, 1}, options, seen) : outcome;
  });
}

// The fast path of a Put: nothing to decide, room in the log and in the buffer. Does the same as
// WriteGroup in that case. False: nothing was done.
template <class C>
template <class Form>
bool LodgeTree<C>::PutIntoBuffer(const WriteOp& op, const Key& key, const WriteOptions& options,
                                 SeenNode<C> seen, WriteResult* result) {
  if (op.kind != WriteKind::kPut || op.condition != Condition::kNone) return false;
  if (options.applied_index.has_value() || !parts_.parameters.surrogate_buffer) return false;
  if (parts_.log.OpenRoom() == 0 || parts_.medium.failed() || parts_.pool.tight()) return false;
  Node* node = seen.node;
  typename Node::Position position;
  {
    const OptimisticSection section;
    position = node->template Search<Form>(key);
    if (position.hits != 0 || parts_.planner.NeedsDrain(node, position.leaf)) return false;
  }
  StagedPair<C> staged;
  if constexpr (C::kRecords) {
    parts_.longest_key.Note(op.key.size());
    if (StagePair(parts_.pool, parts_.slab, parts_.codec, op, key, &staged) != Outcome::kOk)
      return false;
  }
  if (!node->lock.TryUpgrade(seen.snapshot)) {
    DiscardStaged(parts_.slab, &staged);
    return false;
  }
  // Not before the lock: measured, that makes inserts of such pairs a tenth slower.
  if constexpr (!C::kRecords) staged.pair = {key.word, KeyWord(op.value, 0)};
  const uint64_t version = LogAndBuffer(node, position.leaf, key, &staged, LogOp::kPut);
  *result = {};
  if (parts_.medium.failed()) {
    result->outcome = Outcome::kMediumFailed;
  } else if constexpr (C::kRecords) {
    if (!parts_.codec.inline_pairs()) result->version = version;
  }
  return true;
}

// Logs the pair, makes that durable, and buffers it for `leaf` in the node, which has room. The
// caller holds the node's lock, which is released. Returns the pair's number.
template <class C>
uint64_t LodgeTree<C>::LogAndBuffer(Node* node, unsigned leaf, const Key& key,
                                    StagedPair<C>* staged, LogOp op) {
  parts_.CurrentWorker().ReleaseDrainedLogs(parts_.log);
  if constexpr (C::kRecords) parts_.horizon.BeginTaking();
  const uint64_t sequence = parts_.pool.TakeSequence(1);
  if constexpr (C::kRecords) {
    if (staged->record.offset != 0) FinishRecord(parts_.pool, staged->record, sequence);
  }
  const uint32_t log = parts_.log.Append(staged->pair, sequence, op, 0, staged->record.crc);
  EndAppend(parts_.medium);
  FenceLog(parts_.medium);
  if constexpr (C::kRecords) parts_.horizon.EndTaking();
  const bool tombstone = op == LogOp::kDelete;
  node->InsertBuffered(leaf, key, staged->pair, log, tombstone);
  if (C::kRecords || tombstone) parts_.holders.Note(node);
  node->lock.Unlock();
  return sequence;
}

// Whether the leaf has the key, as of `snapshot`. False: the node has changed meanwhile.
template <class C>
bool LodgeTree<C>::HasInLeaf(const Node* node, unsigned leaf, const Key& key, uint64_t snapshot,
                             bool* has) const {
  const OptimisticSection section;
  *has = false;
  uint32_t slots = node->mirrors[leaf].Candidates(FingerprintOf(key.hash));
  const pmem::Offset offset = node->values[leaf];
  // An address that may not be a leaf's is not followed.
  if (!node->lock.Validate(snapshot)) return false;
  const auto* media = parts_.pool.template At<media::Leaf>(offset);
  for (; slots != 0 && !*has; slots &= slots - 1) {
    *has = SlotPair(media, static_cast<unsigned>(std::countr_zero(slots))).key == key.word;
  }
  return true;
}

// The fast path of a Delete of a key that is not buffered, of pairs without records: its leaf is
// read before the lock, which proves what was found there, so that its cache misses overlap with
// the previous fence. Does the same as WriteGroup in that case. False: nothing was done.
template <class C>
bool LodgeTree<C>::DeleteInBuffer(const WriteOp& op, const Key& key, SeenNode<C> seen,
                                  WriteResult* result) {
  if (op.kind != WriteKind::kDelete || op.condition != Condition::kNone) return false;
  if (!parts_.parameters.surrogate_buffer || parts_.log.OpenRoom() == 0) return false;
  if (parts_.medium.failed() || parts_.pool.tight()) return false;
  Node* node = seen.node;
  FetchMirrors(node);
  typename Node::Position position;
  {
    const OptimisticSection section;
    position = node->Search(key);
    bool has;
    if (!HasInLeaf(node, position.leaf, key, seen.snapshot, &has)) return false;
    if (position.hits != 0 || parts_.planner.NeedsDrain(node, position.leaf)) return false;
    // A leaf that may be emptied is drained at once.
    const auto deleted = static_cast<unsigned>(std::popcount(node->GroupMask(position.leaf))) + 1;
    if (has && deleted >= node->leaf_count[position.leaf]) return false;
    if (has ? !node->lock.TryUpgrade(seen.snapshot) : !node->lock.Validate(seen.snapshot))
      return false;
    *result = {Outcome::kOk, has, 0};
    if (!has) return true;
  }
  StagedPair<C> staged{.pair = {key.word, 0}};
  LogAndBuffer(node, position.leaf, key, &staged, LogOp::kDelete);
  if (parts_.medium.failed()) *result = {Outcome::kMediumFailed, false, 0};
  return true;
}

// Fetches what the operation has to find in a leaf before it can be decided, if anything.
template <class C>
void LodgeTree<C>::FetchCurrent(const WriteOp& op, const Key& key, const Node* node) const {
  if (op.kind != WriteKind::kDelete && op.condition == Condition::kNone) return;
  FetchMirrors(node);
  const OptimisticSection section;
  parts_.access.FetchSlots(node, node->Search(key).leaf, key);
}

template <class C>
Outcome LodgeTree<C>::WriteGroup(std::span<PendingOp<C>> group, const WriteOptions& options,
                                 SeenNode<C> seen) {
  return GroupWrite<C>(parts_, parts_.CurrentWorker(), group, options).Run(seen);
}

// Stages the pair of a put; the result has the outcome, too.
template <class C>
Outcome LodgeTree<C>::Stage(PendingOp<C>* pending) {
  const WriteOp& op = *pending->op;
  if (op.kind != WriteKind::kPut) return Outcome::kOk;
  if (C::kRecords) parts_.longest_key.Note(op.key.size());
  return pending->result->outcome = StagePair(parts_.pool, parts_.slab, parts_.codec, op,
                                              pending->key, &pending->staged);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
