// For unit tests: access to the parts of an engine.
#pragma once

#include "index/node/engine_test_util.h"
#include "index/tlbtree/tlbtree.h"

namespace lodgekv::tlbtree {

const EngineInfo& GetEngineInfo();

TreeState<Fixed64Codec>& FixedState(TestEngine& tree);
TreeState<BytesCodec>& BytesState(TestEngine& tree);

}  // namespace lodgekv::tlbtree
