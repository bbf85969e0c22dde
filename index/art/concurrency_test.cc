// Readers beside writers. Some separators stay; each of the others has a writer that inserts,
// exchanges and removes it, and says before and after what it does: so a reader knows of each
// whether it was there, or not, during all of a search.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <set>
#include <thread>
#include <vector>

#include "index/art/art_test_util.h"

namespace lodgekv::art {
namespace {

struct Owned {
  std::string low;
  size_t number;
};
struct WordOfOwned {
  uint64_t operator()(const Owned* owned) const { return KeyWord(owned->low, 0); }
};
struct TextOfOwned {
  std::string_view operator()(const Owned* owned) const { return owned->low; }
};

// The states of the separators that come and go; bits above the lowest two count the changes.
constexpr uint64_t kAbsent = 0;
constexpr uint64_t kPresent = 1;
constexpr uint64_t kChanging = 2;

template <class Its>
class Shared {
 public:
  static constexpr uint64_t kWriters = 2;

  Shared(MakeText make, uint64_t keys) {
    std::set<std::string> texts;
    for (uint64_t n = 0; n < keys; ++n) texts.insert(make(n));
    texts_.assign(texts.begin(), texts.end());
    for (size_t i = 0; i < texts_.size(); ++i) {
      states_.emplace_back(i % 6 == 0 ? kPresent : kAbsent);
      twins_.push_back({New(i), New(i)});
      if (i % 6 == 0) tree_.Insert(KeyIn<Its>(texts_[i]), twins_[i][0]);
    }
  }

  // Writer `w` changes its own separators at random until `reads` are enough, and removes them in
  // the end.
  void Write(uint64_t w, const std::atomic<uint64_t>& reads) {
    constexpr uint64_t kChanges = 20000;
    constexpr uint64_t kReads = 20000;
    std::vector<Owned*> there(texts_.size());
    for (uint64_t n = 0; n < kChanges || reads.load() < kReads; ++n) {
      const uint64_t random = Mix(n * kWriters + w);
      const size_t i = random % texts_.size();
      if (IsOf(i, w)) Change(i, &there[i], random >> 40 & 1);
    }
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (IsOf(i, w) && there[i] != nullptr) Change(i, &there[i], false);
    }
  }

  // False: a wrong answer.
  bool Read(uint64_t n, std::vector<uint64_t>* states) const {
    const std::string& text = texts_[Mix(n) % texts_.size()];
    const auto key = KeyIn<Its>(text);
    for (const bool or_equal : {true, false}) {
      states->clear();
      for (const auto& state : states_) states->push_back(state.load());
      const Owned* found = or_equal ? tree_.Floor(key) : tree_.Before(key);
      if (!IsRight(found, text, or_equal, *states)) return false;
    }
    return true;
  }

  void ExpectOnlyWhatStays() const {
    EXPECT_EQ(wrong_writes_.load(), 0u);
    EXPECT_EQ(tree_.size(), (texts_.size() + 5) / 6);
    EXPECT_TRUE(Checker(tree_).Check().ok()) << Checker(tree_).Check();
    for (size_t i = 0; i < texts_.size(); ++i) {
      EXPECT_EQ(tree_.Floor(KeyIn<Its>(texts_[i])), twins_[i / 6 * 6][0]);
    }
    EXPECT_EQ(tree_.nodes().held_bytes(), arena_.used_bytes());
  }

 private:
  static bool IsOf(size_t i, uint64_t w) { return i % 6 != 0 && i % kWriters == w; }
  Owned* New(size_t i) { return &owned_.emplace_back(Owned{texts_[i], i}); }

  // `there`: what the tree has for the separator, or null.
  void Change(size_t i, Owned** there, bool exchanges) {
    const auto key = KeyIn<Its>(texts_[i]);
    Owned* const before = *there;
    const uint64_t count = (states_[i].load() / 4 + 1) * 4;
    bool right;
    if (before != nullptr && exchanges) {
      *there = before == twins_[i][0] ? twins_[i][1] : twins_[i][0];
      right = tree_.Replace(key, *there) == before;
    } else {
      states_[i] = count + kChanging;
      *there = before == nullptr ? twins_[i][0] : nullptr;
      right = before == nullptr ? tree_.Insert(key, *there) : tree_.Remove(key) == before;
      states_[i] = count + (before == nullptr ? kPresent : kAbsent);
    }
    if (!right) wrong_writes_.fetch_add(1);
  }

  // `before`: the states before the search.
  bool IsRight(const Owned* found, const std::string& text, bool or_equal,
               const std::vector<uint64_t>& before) const {
    const auto was_all_the_time = [&](size_t i, uint64_t what) {
      const uint64_t state = before[i];
      return state % 4 == what && states_[i].load() == state;
    };
    if (found != nullptr && was_all_the_time(found->number, kAbsent)) return false;
    const size_t first = found == nullptr ? 0 : found->number;
    if (found != nullptr && (or_equal ? found->low > text : found->low >= text)) return false;
    for (size_t i = found == nullptr ? 0 : first + 1; i < texts_.size(); ++i) {
      if (or_equal ? texts_[i] > text : texts_[i] >= text) break;
      if (was_all_the_time(i, kPresent)) return false;
    }
    return true;
  }

  DramArena arena_;
  Its tree_{arena_};
  std::vector<std::string> texts_;  // of all separators, ascending
  std::deque<std::atomic<uint64_t>> states_;
  std::deque<Owned> owned_;
  std::vector<std::array<Owned*, 2>> twins_;
  std::atomic<uint64_t> wrong_writes_{0};
};

template <class Its>
void ReadsBesideWriters(MakeText make, uint64_t keys) {
  Shared<Its> shared(make, keys);
  std::atomic<uint64_t> writing{Shared<Its>::kWriters};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> threads;
  for (uint64_t w = 0; w < Shared<Its>::kWriters; ++w) {
    threads.emplace_back([&, w] {
      shared.Write(w, reads);
      writing.fetch_sub(1);
    });
    threads.emplace_back([&, w] {
      std::vector<uint64_t> states;
      for (uint64_t n = w << 32; writing.load() > 0; ++n) {
        if (!shared.Read(n, &states)) wrong.fetch_add(1);
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  shared.ExpectOnlyWhatStays();
}

TEST(ArtConcurrencyTest, WordsAreReadBesideWriters) {
  ReadsBesideWriters<Tree<Owned, WordOfOwned>>(Plain, 300);
  ReadsBesideWriters<Tree<Owned, WordOfOwned>>(Ascending, 300);
  ReadsBesideWriters<Tree<Owned, WordOfOwned>>(FewBits, 100);
}

TEST(ArtConcurrencyTest, TextsAreReadBesideWriters) {
  ReadsBesideWriters<Tree<Owned, TextOfOwned>>(TwoLetters, 300);
  ReadsBesideWriters<Tree<Owned, TextOfOwned>>(Zeros, 300);
  ReadsBesideWriters<Tree<Owned, TextOfOwned>>(Url, 300);
}

// Few separators: the same nodes appear, split, join and are used again constantly.
TEST(ArtConcurrencyTest, SmallTreesAreReadBesideWriters) {
  for (const uint64_t keys : {7, 13, 40}) {
    ReadsBesideWriters<Tree<Owned, WordOfOwned>>(Dense, keys);
    ReadsBesideWriters<Tree<Owned, TextOfOwned>>(TwoLetters, keys);
    ReadsBesideWriters<Tree<Owned, TextOfOwned>>(LongPrefix, keys);
  }
}

}  // namespace
}  // namespace lodgekv::art
