#include "client/lodgectl/cost_sum.h"

#include "absl/strings/str_cat.h"

namespace lodgekv::lodgectl {
namespace {

// Of a Cost or a CostShare.
template <typename Numbers>
std::string Words(const Numbers& cost) {
  return absl::StrCat("lines flushed ", cost.lines_flushed(), ", fences ", cost.fences(),
                      ", media writes of 256 bytes ", cost.media_writes_256b(), ", bytes stored ",
                      cost.bytes_stored());
}

}  // namespace

void CostSum::Add(const v1::Cost& cost) {
  const std::lock_guard lock(mutex_);
  const v1::CostShare& share = cost.share();
  ++calls_;
  sum_.set_lines_flushed(sum_.lines_flushed() + share.lines_flushed());
  sum_.set_fences(sum_.fences() + share.fences());
  sum_.set_media_writes_256b(sum_.media_writes_256b() + share.media_writes_256b());
  sum_.set_bytes_stored(sum_.bytes_stored() + share.bytes_stored());
  last_ = cost;
}

std::string CostSum::Describe() const {
  const std::lock_guard lock(mutex_);
  if (calls_ == 0) return "cost: the server reported none";
  std::string text = absl::StrCat("cost: ", Words(sum_));
  if (calls_ > 1) {
    absl::StrAppend(&text, " (", calls_, " calls)");
  } else if (last_.group_operations() > 1) {
    absl::StrAppend(&text, " (of a group of ", last_.group_operations(),
                    " operations: ", Words(last_), ")");
  }
  return text;
}

}  // namespace lodgekv::lodgectl
