// Converts a pair's value word to the result for a caller: the value, or that its record is damaged
// or has expired.
//
// Thread-safe. If the word may refer to a record, the caller is inside an EpochGuard or holds the
// leaf's lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "index/engine.h"
#include "index/node/key_word.h"
#include "index/node/op_rules.h"
#include "index/node/record.h"
#include "index/node/search_form.h"
#include "index/pmem/pool.h"

namespace lodgekv {

// Not inline: growing needs more instructions than a whole read.
[[gnu::noinline, gnu::cold]] inline void Resize(std::string* out, size_t bytes) {
  out->resize(bytes);
}

[[gnu::noinline]] inline void AssignOtherLength(std::string_view text, std::string* out) {
  out->assign(text);
}

// The 8 bytes of a value from its word. A string that has held such a value is overwritten in
// place, by one store.
inline void AssignWord(uint64_t word, std::string* out) {
  if (out->size() != sizeof(word)) [[unlikely]]
    Resize(out, sizeof(word));
  StoreBigEndian(word, out->data());
}

// A string that has held a value of this length is overwritten in place.
inline void AssignText(std::string_view text, std::string* out) {
  if (out->size() != text.size()) [[unlikely]]
    return AssignOtherLength(text, out);
  std::memcpy(out->data(), text.data(), text.size());
}

template <class C>
class StoredValues {
 public:
  StoredValues(const pmem::Pool& pool, const C& codec) : pool_(pool), codec_(codec) {}

  // For a linked record; `*live`: it has not expired at `now`. kOk or kDataLoss. `Form`:
  // search_form.h.
  template <class Form = SearchByPointer>
  Outcome CheckRecord(pmem::Offset offset, const RecordView& record, uint64_t now,
                      bool* live) const {
    const bool sound = Form::kInlines ? internal::RecordIsSound(pool_, offset, record)
                                      : RecordIsSound(pool_, offset, record);
    if (!sound) return Outcome::kDataLoss;
    *live = record.expiry_unix_ms == 0 || record.expiry_unix_ms > now;
    return Outcome::kOk;
  }

  // Sets `result` except for its outcome, which is returned.
  template <class Form = SearchByPointer>
  Outcome Copy(uint64_t value_word, const ReadOptions& options, ReadResult* result) const;

  // False: the record is damaged.
  bool IsSound(uint64_t value_word) const {
    if constexpr (C::kRecords) {
      if (!C::IsRecord(value_word)) return true;
      const pmem::Offset record = C::RecordOf(value_word);
      return RecordIsSound(pool_, record, ViewRecord(pool_, record));
    }
    return true;
  }

  // What conditions need to know about an existing pair.
  CurrentPair Describe(uint64_t value_word, uint64_t now) const {
    CurrentPair current{.exists = true, .value_word = value_word};
    if constexpr (C::kRecords) {
      if (!C::IsRecord(value_word)) return current;
      const RecordView view = ViewRecord(pool_, C::RecordOf(value_word));
      if (!codec_.inline_pairs()) current.version = view.version;
      current.expired = view.expiry_unix_ms != 0 && view.expiry_unix_ms <= now;
    }
    return current;
  }

 private:
  template <class Form>
  Outcome CopyRecord(pmem::Offset offset, const ReadOptions& options, ReadResult* result) const;

  const pmem::Pool& pool_;
  const C& codec_;
};

template <class C>
template <class Form>
Outcome StoredValues<C>::CopyRecord(pmem::Offset offset, const ReadOptions& options,
                                    ReadResult* result) const {
  const RecordView view = ViewRecord(pool_, offset);
  const Outcome outcome = CheckRecord<Form>(offset, view, options.now_unix_ms, &result->found);
  if (outcome != Outcome::kOk || !result->found) return outcome;
  result->version = codec_.inline_pairs() ? 0 : view.version;
  result->expiry_unix_ms = view.expiry_unix_ms;
  if (view.value.size() > options.most_value_bytes) [[unlikely]] {
    result->left_out = true;
  } else {
    AssignText(view.value, &result->value);
  }
  return Outcome::kOk;
}

template <class C>
template <class Form>
Outcome StoredValues<C>::Copy(uint64_t value_word, const ReadOptions& options,
                              ReadResult* result) const {
  if constexpr (C::kRecords) {
    if (C::IsRecord(value_word)) return CopyRecord<Form>(C::RecordOf(value_word), options, result);
    if (!C::InlineIsSound({0, value_word})) return Outcome::kDataLoss;
    char scratch[8];
    result->value.assign(C::InlineValue(value_word, scratch));
  } else {
    AssignWord(value_word, &result->value);
  }
  result->found = true;
  return Outcome::kOk;
}

}  // namespace lodgekv
