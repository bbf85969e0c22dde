// Descents that follow no key: to the greatest leaf under a child, and to one of whose key only the
// bytes that all keys there have in common are wanted.
#pragma once

#include "index/art/node_search.h"
#include "index/art/view.h"

namespace lodgekv::art {

// From `child`, which `above` has shown, to the leaf that `choose` leads to; `above` then is what
// has shown it. Empty: something has changed meanwhile. The depth of a tree may be thousands of
// nodes: there is no recursion.
template <class Choose>
inline Child FollowToLeaf(Child child, View* above, Choose choose) {
  while (child.is_node()) {
    if (!StepInto(child, above)) return Child();
    child = choose(child);
  }
  return child;
}

inline Child GreatestLeaf(Child child, View* above) {
  return FollowToLeaf(child, above, [](Child node) { return Greatest(node); });
}
inline Child LeastLeaf(Child child, View* above) {
  return FollowToLeaf(child, above, [](Child node) { return Least(node); });
}

}  // namespace lodgekv::art
