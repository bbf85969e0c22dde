// Reads pairs from the source of a bulk load and validates them before an engine stores them: they
// must fit the pool's key format and ascend. Errors name the pair by its position, counted from 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "index/engine_info.h"
#include "index/node/op_rules.h"

namespace lodgekv {

inline absl::Status CheckFill(unsigned fill_percent) {
  if (fill_percent >= kLeastFillPercent && fill_percent <= 100) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a bulk load fills leaves to ", kLeastFillPercent,
                                                 " to 100 percent, not to ", fill_percent));
}

// C is a codec (index/node/codec.h).
template <class C>
class SortedPairs {
 public:
  SortedPairs(const BulkSource& source, const C& codec) : source_(source), codec_(codec) {}

  // Returns the next pair as a put, whose views are valid until the next call. False: none are
  // left.
  absl::StatusOr<bool> Next(WriteOp* op) {
    BulkPair pair;
    const absl::StatusOr<bool> more = source_(&pair);
    if (!more.ok()) {
      return absl::Status(more.status().code(),
                          absl::StrCat("bulk load: the source failed after ", count_,
                                       " pairs: ", more.status().message()));
    }
    if (!*more) return false;
    ++count_;
    *op = {.key = pair.key, .value = pair.value, .expiry_unix_ms = pair.expiry_unix_ms};
    if (CheckFormat(*op, codec_) != Outcome::kOk) return WrongFormat(pair);
    if (count_ > 1 && pair.key <= last_) return WrongOrder(pair.key);
    last_.assign(pair.key);
    return true;
  }

  // The number of pairs so far.
  uint64_t count() const { return count_; }

 private:
  absl::Status WrongFormat(const BulkPair& pair) const {
    std::string limits = "keys and values of exactly 8 bytes, without expiry";
    if constexpr (C::kRecords) {
      limits = absl::StrCat("keys of 1 to ", kLargestKeyBytes, " bytes and values of at most ",
                            kLargestValueBytes);
      if (codec_.inline_pairs()) absl::StrAppend(&limits, ", with inline_pairs without expiry");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "bulk load: pair ", count_, " has a key of ", pair.key.size(), " bytes and a value of ",
        pair.value.size(), pair.expiry_unix_ms == 0 ? "" : ", and an expiry",
        "; the pool's key format takes ", limits));
  }

  absl::Status WrongOrder(std::string_view key) const {
    return absl::InvalidArgumentError(
        absl::StrCat("bulk load: pair ", count_, " has key ", Show(key), ", which ",
                     key == last_ ? "pair " : "is below that of pair ", count_ - 1,
                     key == last_ ? " has too" : absl::StrCat(", ", Show(last_)),
                     "; keys must ascend as byte strings, each once"));
  }

  static std::string Show(std::string_view key) {
    constexpr size_t kShown = 40;
    return absl::StrCat("\"", absl::CHexEscape(std::string(key.substr(0, kShown))), "\"",
                        key.size() > kShown ? "..." : "");
  }

  const BulkSource& source_;
  const C& codec_;
  uint64_t count_ = 0;
  std::string last_;
};

}  // namespace lodgekv
