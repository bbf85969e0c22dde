// The ways to write to an LB+-Tree: those of every tree without a log, over PairWriter. Each is
// instantiated once, beside the code that it uses.
#pragma once

#include "index/lbtree/pair_writer.h"
#include "index/node/tree_writes.h"

namespace lodgekv {

extern template class PointWrites<Fixed64Codec, lbtree::PairWriter<Fixed64Codec>>;  // write.cc
extern template class PointWrites<BytesCodec, lbtree::PairWriter<BytesCodec>>;      // write.cc
extern template class GroupWrites<Fixed64Codec,
                                  lbtree::PairWriter<Fixed64Codec>>;            // group_commit.cc
extern template class GroupWrites<BytesCodec, lbtree::PairWriter<BytesCodec>>;  // group_commit.cc

}  // namespace lodgekv
