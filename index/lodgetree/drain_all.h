// Drains everything buffered to its leaves before the pool is closed.
#pragma once

#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

// Drains every buffer and merges leaves. Several threads work on ranges of nodes: no other thread
// may use the tree then.
template <class C>
void DrainAllBuffers(TreeParts<C>& parts);

}  // namespace lodgekv::lodgetree
