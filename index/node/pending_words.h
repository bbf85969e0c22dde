// The commits in progress of all threads, for trees that have no table of locks beside which a
// PendingWord (pending_word.h) could lie: each thread has words of its own, and what it changes
// refers to one of them by a small number, its ticket.
//
// A thread sets words, stores and fences; then, while readers of what it has changed wait
// (VersionLock::BeginPublish), it clears them. A reader with an old ticket finds a word of another
// commit, or none: its view is invalid anyway.
//
// Thread-safe; a ticket is cleared by the thread that has it.
#pragma once

#include <array>
#include <cstdint>

#include "index/node/pending_word.h"
#include "index/pmem/per_worker.h"

namespace lodgekv {

class PendingWords {
 public:
  using Ticket = uint16_t;  // 0: none
  // Of one thread at once.
  static constexpr unsigned kMost = 255;

  // Call before `word` is stored. The thread has fewer than kMost.
  Ticket Set(const pmem::Word& word) {
    Own& own = threads_.Current();
    ++own.live;
    own.words[own.next].Set(word);
    return static_cast<Ticket>(pmem::CurrentWorkerSlot() << 8 | own.next++);
  }
  void Clear(Ticket ticket) {
    Own& own = threads_.Current();
    own.words[ticket & 0xff].Clear();
    if (--own.live == 0) own.next = 1;
  }
  // The value of `word` that a reader may see. The word is loaded before the ticket is
  // (`ticket_now`): a reader that finds the new value finds the ticket too, or it is durable.
  template <class TicketNow>
  uint64_t Durable(const pmem::Word& word, TicketNow ticket_now) const {
    const uint64_t now = word.Load();
    const Ticket ticket = ticket_now();
    const Own* own = ticket == 0 ? nullptr : threads_.Of(ticket >> 8);
    return own == nullptr ? now : own->words[ticket & 0xff].Durable(word, now);
  }

 private:
  struct Own {
    std::array<PendingWord, kMost + 1> words;
    unsigned next = 1;  // no ticket is 0
    unsigned live = 0;
  };
  static_assert(pmem::kMaxWorkerSlots <= 256);

  pmem::PerWorker<Own> threads_;
};

}  // namespace lodgekv
