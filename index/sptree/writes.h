// The ways to write to an SPTree: those of every tree without a log, over PairWriter. Each is
// instantiated once, beside the code that it uses.
#pragma once

#include "index/node/tree_writes.h"
#include "index/sptree/pair_writer.h"

namespace lodgekv {

extern template class PointWrites<Fixed64Codec, sptree::PairWriter<Fixed64Codec>>;  // write.cc
extern template class PointWrites<BytesCodec, sptree::PairWriter<BytesCodec>>;      // write.cc
extern template class GroupWrites<Fixed64Codec,
                                  sptree::PairWriter<Fixed64Codec>>;            // group_commit.cc
extern template class GroupWrites<BytesCodec, sptree::PairWriter<BytesCodec>>;  // group_commit.cc

}  // namespace lodgekv
