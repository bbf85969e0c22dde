#include "index/sptree/low_fences.h"

#include "index/node/record.h"

namespace lodgekv::sptree {

// What was set aside is taken last: others may have returned space meanwhile.
template <class C>
bool LowFences<C>::Make(Worker& worker, typename C::Separator separator, FenceWords* fence) {
  const std::string_view text = C::FenceText(separator);
  if (text.empty()) {
    *fence = C::EncodeFence(separator, 0);
    return true;
  }
  StagedRecord record = StageRecord(tree_.pool, tree_.slab, text, {}, 0, tree_.space.reserve());
  if (record.offset == 0) return MakeIn(worker, text, fence, separator);
  FinishRecord(tree_.pool, record, 0);
  *fence = C::EncodeFence(separator, record.offset);
  return true;
}

// In a spare record, if they are large enough.
template <class C>
bool LowFences<C>::MakeIn(Worker& worker, std::string_view text, FenceWords* fence,
                          typename C::Separator separator) {
  const uint64_t bytes = RecordBytes(text.size(), 0, false);
  if (worker.spare_fences.empty() || bytes > worker.spare_fence_bytes) return false;
  const pmem::Offset space = worker.spare_fences.back();
  worker.spare_fences.pop_back();
  StagedRecord record = StageRecordAt(tree_.pool, tree_.slab, space, text, {}, 0);
  FinishRecord(tree_.pool, record, 0);
  // The space may be a large object although the record is none.
  if (tree_.slab.IsLarge(worker.spare_fence_bytes) && !record.large) {
    tree_.medium.Persist(tree_.pool.template At<char>(space), record.bytes);
    tree_.slab.Commit(space);
  }
  *fence = C::EncodeFence(separator, space);
  return true;
}

template <class C>
void LowFences<C>::Retire(Worker& worker, FenceWords fence) {
  if (fence.kind() != FenceWords::kRecord || tree_.medium.failed()) return;
  worker.retired.Add(tree_.slab, fence.record());
}

// A leaf can always be divided beside the new key, by a separator that is one byte longer at most.
template <class C>
bool LowFences<C>::SetAside(Worker& worker, size_t puts, size_t longest) {
  if (!C::kRecords) return true;
  const uint64_t bytes = RecordBytes(longest + 1, 0, false);
  if (bytes > worker.spare_fence_bytes) {
    FreeSpare(worker);
    worker.spare_fence_bytes = bytes;
  }
  while (worker.spare_fences.size() < puts) {
    const pmem::Offset record = tree_.slab.Allocate(bytes, pmem::ReservePolicy::kKeep);
    if (record == 0) return false;
    worker.spare_fences.push_back(record);
  }
  return true;
}

template <class C>
void LowFences<C>::FreeSpare(Worker& worker) {
  for (const pmem::Offset record : worker.spare_fences) tree_.slab.Free(record);
  worker.spare_fences.clear();
  worker.spare_fence_bytes = 0;
}

template class LowFences<Fixed64Codec>;
template class LowFences<BytesCodec>;

}  // namespace lodgekv::sptree
