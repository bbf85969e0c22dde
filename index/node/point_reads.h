// Read for all engines: single keys, and several keys in groups whose lookups overlap.
//
// The tree finds the key; this class checks keys, fills results, and enters the epoch inside which
// records are read. As thread-safe as the tree's lookups.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "index/engine.h"
#include "index/node/epoch.h"
#include "index/node/op_rules.h"
#include "index/node/search_form.h"
#include "index/node/stored_values.h"

namespace lodgekv {

// Number of lines fetched into the cache in parallel; more gain little.
inline constexpr size_t kReadTogether = 16;

// One of several keys that are looked up together; a tree adds the state of its stages.
template <class C>
struct KeyLookup {
  typename C::Key key;
  ReadResult* result;
};

// Required of Tree, which makes this a friend; its functions are templates over the form of search
// (search_form.h):
//   Lookup                      a KeyLookup<C>, and what the tree adds
//   bool FindValueWord(const Key&, uint64_t*)      of the key's live pair, if there is one
//   void FetchLookups(std::span<Lookup>)           begins all: their lines are being fetched
//   bool FinishLookup(const Lookup&, uint64_t*)    like FindValueWord, for one that was begun
// A tree that has kMeetsDamage may find out that the way to a key is damaged: then both return
// false and set the word to kDamagedWay.
inline constexpr uint64_t kDamagedWay = 1;

template <class C, class Tree, class Form>
class PointReads {
 public:
  PointReads(const Tree& tree, const StoredValues<C>& values, const ReadOptions& options)
      : tree_(tree), values_(values), options_(options) {}

  Outcome ReadAlone(std::string_view text, ReadResult* result) const {
    if (!Begin(text, result)) return result->outcome;
    const Epoch epoch;
    uint64_t value_word;
    if (!tree_.template FindValueWord<Form>(C::MakeKey(text), &value_word)) {
      return NotFound(value_word, result);
    }
    return result->outcome = values_.template Copy<Form>(value_word, options_, result);
  }

  Outcome ReadAll(std::span<const std::string_view> keys, std::span<ReadResult> results) const {
    Outcome first = Outcome::kOk;
    for (size_t done = 0; done < keys.size(); done += kReadTogether) {
      const size_t count = std::min(keys.size() - done, kReadTogether);
      const auto group = results.subspan(done, count);
      ReadTogether(keys.subspan(done, count), group);
      for (const ReadResult& result : group) {
        if (first == Outcome::kOk) first = result.outcome;
      }
    }
    return first;
  }

 private:
  using Lookup = typename Tree::Lookup;

  // False: the text is not a valid key.
  static bool Begin(std::string_view text, ReadResult* result) {
    result->outcome = IsKey<C>(text) ? Outcome::kOk : Outcome::kInvalidArgument;
    result->found = result->left_out = false;
    result->version = result->expiry_unix_ms = 0;
    return result->outcome == Outcome::kOk;
  }

  static Outcome NotFound([[maybe_unused]] uint64_t value_word,
                          [[maybe_unused]] ReadResult* result) {
    if constexpr (requires { requires Tree::kMeetsDamage; }) {
      if (value_word == kDamagedWay) [[unlikely]]
        return result->outcome = Outcome::kDataLoss;
    }
    return Outcome::kOk;
  }

  void ReadTogether(std::span<const std::string_view> keys, std::span<ReadResult> results) const {
    const Epoch epoch;
    Lookup lookups[kReadTogether];
    size_t count = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!Begin(keys[i], &results[i])) continue;
      lookups[count].key = C::MakeKey(keys[i]);
      lookups[count++].result = &results[i];
    }
    tree_.template FetchLookups<Form>(std::span(lookups, count));
    for (const Lookup& lookup : std::span(lookups, count)) {
      uint64_t value_word;
      if (!tree_.template FinishLookup<Form>(lookup, &value_word)) {
        (void)NotFound(value_word, lookup.result);
        continue;
      }
      lookup.result->outcome = values_.template Copy<Form>(value_word, options_, lookup.result);
    }
  }

  // For pairs without records, which need no epoch.
  struct Nothing {
    Nothing() {}
  };
  using Epoch = std::conditional_t<C::kRecords, EpochGuardOf<Form>, Nothing>;

  const Tree& tree_;
  const StoredValues<C>& values_;
  const ReadOptions& options_;
};

// Engine::Read by PointReads, in the instance for this processor. A single key has an instance of
// its own, which needs few registers.
template <class C, class Tree>
Outcome ReadPoints(const Tree& tree, const StoredValues<C>& values,
                   std::span<const std::string_view> keys, std::span<ReadResult> results,
                   const ReadOptions& options) {
  if (keys.size() == 1) [[likely]] {
    return RunBySearchForm(
        [](auto form, const Tree* of, const StoredValues<C>* its_values,
           const std::string_view* key, ReadResult* result, const ReadOptions* its_options) {
          return PointReads<C, Tree, decltype(form)>(*of, *its_values, *its_options)
              .ReadAlone(*key, result);
        },
        &tree, &values, keys.data(), results.data(), &options);
  }
  return RunBySearchForm(
      [](auto form, const Tree* of, const StoredValues<C>* its_values, auto its_keys,
         auto its_results, const ReadOptions* its_options) {
        return PointReads<C, Tree, decltype(form)>(*of, *its_values, *its_options)
            .ReadAll(its_keys, its_results);
      },
      &tree, &values, keys, results, &options);
}

}  // namespace lodgekv
