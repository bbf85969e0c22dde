// Before the pool is closed all that is buffered goes to its leaves.
#pragma once

#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

// Drains every buffer and merges leaves. On several threads by ranges of nodes: nobody else may be
// at work then.
template <class C>
void DrainAllBuffers(TreeParts<C>& parts);

}  // namespace lodgekv::lodgetree
