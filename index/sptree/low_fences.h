// The low fences of new leaves: in their two words, or, where a separator is too long for them, in
// a record that the leaf owns.
//
// Thread-safe; the spare records are those of the calling thread.
#pragma once

#include <cstdint>

#include "index/node/separator.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class LowFences {
 public:
  explicit LowFences(TreeState<C>& tree) : tree_(tree) {}

  // Its record, if it has one, is flushed. False: the pool is full.
  bool Make(Worker& worker, typename C::Separator separator, FenceWords* fence);
  // Of a leaf that nothing leads to any more.
  void Retire(Worker& worker, FenceWords fence);

  // Allocates the records that `puts` puts of keys of at most `longest` bytes may need for leaves
  // which split beside their keys: short keys need none, but their splits may take one.
  bool SetAside(Worker& worker, size_t puts, size_t longest);
  void FreeSpare(Worker& worker);

 private:
  bool MakeIn(Worker& worker, std::string_view text, FenceWords* fence,
              typename C::Separator separator);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::sptree
