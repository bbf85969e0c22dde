#include "index/sptree/first_touch.h"

#include <utility>

#include "index/pmem/crash_point.h"
#include "index/sptree/leaf_image.h"

namespace lodgekv::sptree {

namespace {

// They share a fence; then readers of these leaves wait for some 100 us.
constexpr size_t kLeavesTogether = 64;
constexpr size_t kLoggedTogether = 16;  // of which each takes what the log has of it
constexpr size_t kTracedTogether = 1;   // in the crash laboratory, whose trees have a few leaves

absl::Status FailureOf(const pmem::Medium& medium) {
  return medium.failed() ? absl::UnavailableError("a sync of the medium has failed")
                         : absl::OkStatus();
}

template <class C>
LeafExaminer<C> ExaminerOf(TreeState<C>& tree, bool settle) {
  return LeafExaminer<C>(tree, settle, LeafExaminer<C>::Marks::kAny);
}

}  // namespace

template <class C>
absl::Status FirstTouch<C>::Begin(pmem::Offset first, bool settle) {
  settle_ = settle;
  absl::Status status = tree_.pool.contents().EnsureVerified(first);
  Separator low{};
  if (status.ok()) {
    status = ExaminerOf(tree_, settle).ReadLow(first, /*first_of_all=*/true, tree_.texts, &low);
  }
  if (!status.ok()) return status;
  Mnode<C>* gap = tree_.mnodes.New();
  gap->gap = true;
  gap->bnode = tree_.BnodeAt(first);
  gap->bitmap = ~uint64_t{0};
  gap->low = gap->high = low;
  C::Keep(low);
  gap->right = &end_;
  tree_.top.set_gap_opener(this);
  tree_.top.Build({&gap, 1});
  return absl::OkStatus();
}

// --- the way to a leaf ---

// A search comes to a gap that is near.
template <class C>
bool FirstTouch<C>::IsInGap(const Mnode<C>& gap, const Aim<C>& aim) const {
  if (gap.right == &end_) return aim.kind == Aim<C>::kLast || aim.Reaches(gap.low);
  return aim.kind != Aim<C>::kLast && aim.Reaches(gap.low) && !aim.Reaches(gap.right->low);
}

// The leaf of an entry, and the low fence that the leaf itself has, which the caller owns. False:
// one of them is damaged.
template <class C>
bool FirstTouch<C>::ReadEntry(size_t entry, Place* place) const {
  TopBackup::Entry at;
  if (!tree_.backup.Read(entry, &at)) return false;
  if (!tree_.pool.contents().EnsureVerified(at.leaf).ok()) return false;
  place->leaf = at.leaf;
  return tree_.codec.DecodeFence(FenceOf(*tree_.BnodeAt(at.leaf)), tree_.texts, &place->low);
}

template <class C>
bool FirstTouch<C>::ReachesEntry(size_t entry, const Aim<C>& aim) const {
  Place at;
  if (!ReadEntry(entry, &at)) return false;
  const bool reaches = aim.Reaches(at.low);
  C::Discard(tree_.texts, at.low);
  return reaches;
}

// The number of entries up to the last one that is not to the right of what is aimed at. Words
// decide, and the leaves' own fences between equal ones.
template <class C>
size_t FirstTouch<C>::LastReached(const Aim<C>& aim) const {
  const size_t all = tree_.backup.entries();
  if (aim.kind == Aim<C>::kLast) return all;
  const auto first_where = [](size_t from, size_t to, auto is_right) {
    while (from < to) {
      const size_t middle = from + (to - from) / 2;
      if (is_right(middle)) {
        to = middle;
      } else {
        from = middle + 1;
      }
    }
    return from;
  };
  const uint64_t word = C::WordOf(*aim.key, 0);
  const auto low_at = [&](size_t i) { return tree_.backup.LowAt(i); };
  const size_t equal = first_where(0, all, [&](size_t i) { return low_at(i) >= word; });
  const size_t above = first_where(equal, all, [&](size_t i) { return low_at(i) > word; });
  return first_where(equal, above, [&](size_t i) { return !ReachesEntry(i, aim); });
}

// False: the backup knows no leaf in the gap that may be believed, but perhaps its first one.
template <class C>
bool FirstTouch<C>::StartFromBackup(const Mnode<C>& gap, const Aim<C>& aim, Place* place) const {
  const bool believes = tree_.medium.Canary("sptree.touch.dropped_believed");
  for (size_t i = LastReached(aim); i-- > 0;) {
    if (!ReadEntry(i, place)) continue;
    const Separator low = place->low;
    const bool in_gap = C::Compare(low, gap.low) > 0;
    const bool left_of_end = gap.right == &end_ || C::Compare(low, gap.right->low) < 0;
    const bool alive = !IsMarkedDropped(*tree_.BnodeAt(place->leaf)) || believes;
    if (in_gap && left_of_end && alive && aim.Reaches(low)) return true;
    C::Discard(tree_.texts, low);
    if (!in_gap) return false;
  }
  return false;
}

// `next->leaf` is 0 where the gap ends.
template <class C>
absl::Status FirstTouch<C>::Next(const Mnode<C>& gap, const Place& place, Place* next) const {
  const auto damaged = LeafExaminer<C>::Damaged;
  const bool endless = gap.right == &end_;
  const pmem::Offset end = endless ? 0 : tree_.pool.OffsetOf(gap.right->bnode);
  pmem::Offset offset;
  if (!ReadChecked(tree_.BnodeAt(place.leaf)->next.Load(), &offset)) {
    return damaged("a next pointer with wrong check bits in the leaf", place.leaf);
  }
  *next = {};
  if (offset == end) return absl::OkStatus();
  if (offset == 0 || !tree_.bnodes.IsUnit(offset)) {
    return damaged("a next pointer that leads to no leaf in the leaf", place.leaf);
  }
  absl::Status status = tree_.pool.contents().EnsureVerified(offset);
  Separator low;
  if (status.ok()) status = ExaminerOf(tree_, settle_).ReadLow(offset, false, tree_.texts, &low);
  if (!status.ok()) return status;
  if (C::Compare(place.low, low) < 0 && (endless || C::Compare(low, gap.right->low) < 0)) {
    *next = {offset, low};
    return status;
  }
  C::Discard(tree_.texts, low);
  return damaged("a low fence that is damaged or out of order", offset);
}

template <class C>
absl::Status FirstTouch<C>::GoTo(const Mnode<C>& gap, const Aim<C>& aim, Place* place,
                                 std::vector<pmem::Offset>* links) const {
  if (!StartFromBackup(gap, aim, place)) {
    *place = {tree_.pool.OffsetOf(gap.bnode), gap.low};
    C::Keep(gap.low);
  }
  absl::Status status = tree_.pool.contents().EnsureVerified(place->leaf);
  while (status.ok()) {
    Place next;
    status = Next(gap, *place, &next);
    if (!status.ok() || next.leaf == 0) break;
    if (!aim.Reaches(next.low)) {
      C::Discard(tree_.texts, next.low);
      break;
    }
    links->push_back(place->leaf);
    C::Release(tree_.texts, place->low);
    *place = next;
  }
  if (!status.ok()) C::Release(tree_.texts, place->low);
  return status;
}

// Without an aim, the gap's first leaf. `place->leaf` is 0 if the gap has no such leaf any more.
// `links`: leaves whose `next` was followed.
template <class C>
absl::Status FirstTouch<C>::FindStart(const Mnode<C>& gap, const Aim<C>* aim, Place* place,
                                      std::vector<pmem::Offset>* links) const {
  *place = {};
  if (!gap.gap || (aim != nullptr && !IsInGap(gap, *aim))) return absl::OkStatus();
  if (aim != nullptr) return GoTo(gap, *aim, place, links);
  *place = {tree_.pool.OffsetOf(gap.bnode), gap.low};
  C::Keep(gap.low);
  return absl::OkStatus();
}

// --- settling ---

// What will be believed.
template <class C>
absl::Status FirstTouch<C>::FindUnsettled(const Mnode<C>& gap, const Aim<C>* aim, size_t most,
                                          Unsettled* found) const {
  Place place;
  absl::Status status = FindStart(gap, aim, &place, &found->links);
  if (!status.ok() || place.leaf == 0) return status;
  for (;;) {
    found->leaves.push_back(place.leaf);
    if (found->leaves.size() == most) break;
    Place next;
    // Damage here is that of a later leaf.
    if (!Next(gap, place, &next).ok() || next.leaf == 0) break;
    C::Release(tree_.texts, place.low);
    place = next;
  }
  C::Release(tree_.texts, place.low);
  return status;
}

// Nobody waits for the fence but the caller. Lines of leaves that others touch meanwhile are
// flushed in vain.
template <class C>
absl::Status FirstTouch<C>::Settle(const Unsettled& found) const {
  pmem::Medium& medium = tree_.medium;
  for (const pmem::Offset leaf : found.links) medium.FlushLine(tree_.BnodeAt(leaf));
  for (const pmem::Offset leaf : found.leaves) {
    medium.Flush(tree_.BnodeAt(leaf), sizeof(media::Bnode));
  }
  medium.Fence();
  return FailureOf(medium);
}

// --- leaves ---

// Takes over `place.low`.
template <class C>
absl::Status FirstTouch<C>::Look(Mnode<C>* gap, const Place& place, Run* run) {
  media::Bnode* bnode = tree_.BnodeAt(place.leaf);
  absl::Status status = Next(*gap, place, &run->rest);
  if (!status.ok()) return status;
  Mnode<C>* leaf = bnode == gap->bnode ? gap : tree_.mnodes.New();
  if (leaf != gap) {
    leaf->lock.InitLocked();
    leaf->low = place.low;
  }
  SetMnode<C>(tree_.codec, bnode, 0, {}, leaf);
  Looked<C> looked{.bnode = bnode, .low = place.low, .leaf = leaf};
  const bool ends = run->rest.leaf == 0;
  if (!ends) {
    looked.right = tree_.BnodeAt(run->rest.leaf);
    looked.high = run->rest.low;
  } else if (gap->right != &end_) {
    looked.right = gap->right->bnode;
    looked.high = gap->right->low;
  }
  status = ExaminerOf(tree_, settle_).LookAt(&looked);
  if (status.ok() && tree_.bnodes.Mark(place.leaf) == pmem::UnitArena::MarkResult::kNotAUnit) {
    status = LeafExaminer<C>::Damaged("a leaf that is none", place.leaf);
  }
  typename PendingLog<C>::Share logged;
  if (status.ok()) status = tree_.pending_log.FindShare(looked, &logged);
  if (status.ok()) {
    run->leaves.push_back(looked);
    run->logged.push_back(std::move(logged));
    return status;
  }
  if (leaf != gap) {
    leaf->lock.Unlock();
    tree_.mnodes.Free(leaf);
  }
  if (!ends) C::Release(tree_.texts, run->rest.low);
  return status;
}

// Behind some leaves that are sound, damage ends the run: who comes there finds it again.
template <class C>
absl::Status FirstTouch<C>::LookAtRun(Mnode<C>* gap, Place place, size_t most, Run* run) {
  for (;;) {
    const absl::Status status = Look(gap, place, run);
    if (!status.ok()) {
      run->rest = place;
      if (!run->leaves.empty()) return absl::OkStatus();
      C::Release(tree_.texts, place.low);
      return status;
    }
    if (run->rest.leaf == 0 || run->leaves.size() == most) return status;
    place = run->rest;
  }
}

// That the next leaf has the copies may not be durable.
template <class C>
absl::Status FirstTouch<C>::MendRun(const Run& run) {
  pmem::Medium& medium = tree_.medium;
  bool mends = false;
  for (const Looked<C>& looked : run.leaves) {
    if (!looked.needs_mending()) continue;
    mends = true;
    if (settle_ && looked.right != nullptr) medium.Flush(looked.right, sizeof(media::Bnode));
  }
  if (!mends) return absl::OkStatus();
  if (settle_) medium.Fence();
  for (const Looked<C>& looked : run.leaves) Mend(looked);
  LODGEKV_CRASH_POINT(medium, "sptree.touch.1");
  medium.Fence();
  return FailureOf(medium);
}

// Flushed, not fenced.
template <class C>
void FirstTouch<C>::Mend(const Looked<C>& looked) {
  if (!looked.needs_mending()) return;
  repairs_.fetch_add(1, std::memory_order_relaxed);
  StoreMended(tree_.medium, *looked.leaf->bnode, looked.overlap);
}

// A buffer that is full is flushed: its leaf has been settled and mended.
template <class C>
void FirstTouch<C>::TakeLogged(const Run& run) {
  Worker& worker = tree_.workers.Current();
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    tree_.pending_log.Take(worker, run.leaves[i].leaf, run.logged[i]);
  }
}

// --- the layers in DRAM ---

// The Mnode to the right of the run.
template <class C>
Mnode<C>* FirstTouch<C>::RestOf(const Mnode<C>& gap, const Run& run) {
  if (run.rest.leaf == 0) return gap.right == &end_ ? nullptr : gap.right;
  Mnode<C>* rest = tree_.mnodes.New();
  rest->lock.InitLocked();
  rest->gap = true;
  rest->bnode = tree_.BnodeAt(run.rest.leaf);
  rest->bitmap = ~uint64_t{0};
  rest->low = rest->high = run.rest.low;
  C::Keep(run.rest.low);
  rest->right = gap.right;
  tree_.top.Insert(rest);
  return rest;
}

// A search that the top layer leads to a new Mnode believes it at once; a writer waits for its
// lock. The gap's own Mnode becomes that of the first leaf, or keeps what is to the left.
template <class C>
void FirstTouch<C>::Publish(Mnode<C>* gap, const Run& run) {
  Mnode<C>* const rest = RestOf(*gap, run);
  Mnode<C>* right = rest;
  for (size_t i = run.leaves.size(); i-- > 0;) {
    const Looked<C>& looked = run.leaves[i];
    if (looked.right != nullptr) C::Keep(looked.high);
    if (looked.leaf == gap) break;
    looked.leaf->high = looked.high;
    looked.leaf->right = right;
    tree_.top.Insert(looked.leaf);
    right = looked.leaf;
  }
  const Looked<C>& first = run.leaves.front();
  LeafCommits<Mnode<C>>::BeginPublish(*gap);
  gap->right = right;
  if (first.leaf == gap) {
    C::Release(tree_.texts, gap->high);
    C::Release(tree_.texts, first.low);  // the gap's, once more
    gap->high = first.high;
    gap->gap = false;
  }
  tree_.commits.EndPublish(*gap);
  for (const Looked<C>& looked : run.leaves) {
    keys_.fetch_add(KeysOf(*looked.leaf), std::memory_order_relaxed);
    if (looked.leaf != gap) looked.leaf->lock.Unlock();
  }
  if (run.rest.leaf != 0) rest->lock.Unlock();
  leaves_.fetch_add(run.leaves.size(), std::memory_order_relaxed);
}

// --- calls ---

// The lock proves that the gap is still what the search has seen; so are its leaves, then.
template <class C>
template <class Work>
bool FirstTouch<C>::WithLock(Mnode<C>* gap, uint64_t snapshot, absl::Status* status, Work work) {
  if (!gap->lock.TryUpgrade(snapshot)) {
    Backoff().Pause();
    return false;
  }
  *status = work();
  gap->lock.Unlock();
  return true;
}

// Settles first, without the lock: if that can be acquired afterwards as of the same version,
// nothing has changed.
template <class C>
bool FirstTouch<C>::OpenSome(Mnode<C>* gap, uint64_t snapshot, const Aim<C>* aim, size_t most) {
  absl::Status status;
  if (aim != nullptr && aim->key != nullptr) tree_.pending_log.Prepare(*aim->key, 1);
  if (settle_ && !tree_.medium.Canary("sptree.touch.not_settled")) {
    Unsettled found;
    const auto find = [&] { return FindUnsettled(*gap, aim, most, &found); };
    if (!WithLock(gap, snapshot, &status, find)) return true;
    if (status.ok() && !found.leaves.empty()) status = Settle(found);
  }
  const auto open = [&] {
    Place place;
    std::vector<pmem::Offset> links;
    Run run;
    absl::Status found = FindStart(*gap, aim, &place, &links);
    if (!found.ok() || place.leaf == 0) return found;
    found = LookAtRun(gap, place, most, &run);
    if (found.ok()) found = MendRun(run);
    if (!found.ok()) return found;
    TakeLogged(run);
    Publish(gap, run);
    return found;
  };
  if (status.ok() && !WithLock(gap, snapshot, &status, open)) return true;
  if (!status.ok()) Note(status);
  return status.ok();
}

template <class C>
bool FirstTouch<C>::Open(Mnode<C>* gap, uint64_t snapshot, const Aim<C>& aim) {
  return OpenSome(gap, snapshot, &aim, 1);
}

template <class C>
bool FirstTouch<C>::OpenFront(Mnode<C>* gap, uint64_t snapshot) {
  if (tree_.medium.tracer() != nullptr) return OpenSome(gap, snapshot, nullptr, kTracedTogether);
  const bool logged = tree_.pending_log.pending();
  return OpenSome(gap, snapshot, nullptr, logged ? kLoggedTogether : kLeavesTogether);
}

template <class C>
void FirstTouch<C>::Note(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
}

template <class C>
absl::Status FirstTouch<C>::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

template class FirstTouch<Fixed64Codec>;
template class FirstTouch<BytesCodec>;

}  // namespace lodgekv::sptree
