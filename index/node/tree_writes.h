// Write of an engine whose tree has no log (write_tree.h): one operation, a batch or a group.
// Thread-safe.
#pragma once

#include <span>

#include "index/node/atomic_batch.h"
#include "index/node/group_writes.h"
#include "index/node/point_writes.h"

namespace lodgekv {

// A single operation without an applied index is atomic by itself.
template <class C, WriteTree<C> Tree>
Outcome WriteToTree(Tree& tree, std::span<const WriteOp> ops, std::span<WriteResult> results,
                    const WriteOptions& options) {
  const bool batch = options.atomic && (ops.size() != 1 || options.applied_index.has_value());
  if (ops.size() == 1 && !batch) [[likely]]
    return PointWrites<C, Tree>::Write(tree, ops[0], &results[0], options);
  if (batch) return AtomicBatch<C, Tree>(tree).Write(ops, results, options);
  return GroupWrites<C, Tree>(tree).Write(ops, results, options);
}

}  // namespace lodgekv
