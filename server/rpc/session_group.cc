#include "server/rpc/session_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/rpc/cost_share.h"
#include "server/rpc/errors.h"
#include "server/rpc/session_answer.h"

namespace lodgekv::server {
namespace {

// That the engine applies at a time (limits.h).
constexpr size_t kMostWrites = kGroupOperations.max_value;

constexpr size_t kReads = 0;
constexpr size_t kWrites = 1;

bool IsRead(size_t round) { return round % 2 == kReads; }

}  // namespace

void SessionGroup::Take(WorkQueue<SessionTurn, 2>& turns, uint64_t most_operations) {
  turns_.clear();
  uint64_t operations = 0;
  bool atomic = false;  // it has a fence of its own: what else is queued comes in between
  while (!turns.empty() && operations < most_operations && !atomic) {
    turns_.push_back(turns.Take());
    operations += turns_.back()->operations();
    atomic = turns_.back()->atomic();
  }
}

void SessionGroup::Serve(uint64_t now_unix_ms, size_t most_rounds) {
  together_.clear();
  for (SessionTurn* turn : turns_) {
    for (const auto& message : turn->messages()) {
      if (message->served()) continue;
      if (message->atomic()) {
        ServeAtomic(*message, now_unix_ms);
      } else {
        together_.push_back(message.get());
      }
    }
  }
  ServeTogether(now_unix_ms, most_rounds);
  for (SessionTurn* turn : turns_) {
    for (const auto& message : turn->messages()) {
      if (!message->served() || message->answer.Length() != 0) continue;
      const grpc::Slice wire = SessionAnswerOnWire(*message);
      message->answer = grpc::ByteBuffer(&wire, 1);
    }
  }
}

void SessionGroup::ServeAtomic(SessionMessage& message, uint64_t now_unix_ms) {
  ops_.clear();
  for (const SessionOp& op : message.ops()) ops_.push_back(op.op);
  written_.assign(ops_.size(), {});
  const Cost before = ThreadCost();
  const Outcome outcome = state_.store()->engine().Write(
      ops_, written_, {.atomic = true, .now_unix_ms = now_unix_ms, .applied_index = std::nullopt});
  message.cost = message.share = ThreadCost() - before;
  message.group_operations = ops_.size();
  state_.NoteWrites(outcome, ops_, written_);
  if (outcome != Outcome::kOk) return message.Refuse(FromBatchResults(outcome, ops_, written_));
  for (size_t i = 0; i < ops_.size(); ++i) message.SetWritten(i, written_[i]);
}

void SessionGroup::ServeTogether(uint64_t now_unix_ms, size_t most_rounds) {
  Collect();
  if (items_.empty()) return;
  SetRounds();
  SortByRound();
  const Cost before = ThreadCost();
  size_t begin = 0;
  for (size_t round = 0; round < std::min(ends_.size(), most_rounds); ++round) {
    const auto items = std::span(sorted_).subspan(begin, ends_[round] - begin);
    begin = ends_[round];
    if (items.empty()) continue;
    if (IsRead(round)) {
      Read(items, now_unix_ms);
    } else {
      Write(items, now_unix_ms);
    }
  }
  ShareCost(ThreadCost() - before);
}

void SessionGroup::Collect() {
  items_.clear();
  for (SessionMessage* message : together_) {
    for (size_t i = 0; i < message->ops().size(); ++i) {
      if (message->results()[i].served) continue;
      items_.push_back({message, i, message->ops()[i].is_get ? kReads : kWrites});
    }
  }
}

// Gets alone, or writes alone, need no order: the engine applies writes of one key as they come.
void SessionGroup::SetRounds() {
  const size_t first = items_.front().round;
  if (std::all_of(items_.begin(), items_.end(),
                  [first](const Item& item) { return item.round == first; })) {
    return;
  }
  round_of_key_.clear();
  for (Item& item : items_) {
    const std::string_view key = item.op().op.key;
    size_t& last = round_of_key_.try_emplace({key.data(), key.size()}, item.round).first->second;
    // The same round, or the next one of the operation's kind.
    last += static_cast<size_t>(last % 2 != item.round % 2);
    item.round = last;
  }
}

// Stable: by counting.
void SessionGroup::SortByRound() {
  size_t rounds = 0;
  for (const Item& item : items_) rounds = std::max(rounds, item.round + 1);
  ends_.assign(rounds, 0);
  for (const Item& item : items_) ++ends_[item.round];
  size_t begin = 0;
  for (size_t& count : ends_) count = std::exchange(begin, begin + count);
  sorted_.resize(items_.size());
  // Each entry moves from where its round begins to where it ends.
  for (const Item& item : items_) sorted_[ends_[item.round]++] = item;
}

void SessionGroup::Read(std::span<const Item> items, uint64_t now_unix_ms) {
  while (!items.empty()) {
    const auto some = items.first(std::min(kKeysPerLookup, items.size()));
    ReadSome(some, now_unix_ms);
    items = items.subspan(some.size());
  }
}

void SessionGroup::ReadSome(std::span<const Item> items, uint64_t now_unix_ms) {
  to_read_.clear();
  keys_.clear();
  for (const Item& item : items) {
    if (item.message->left_out_error()) {
      item.message->LeaveOut(item.index, *item.message->left_out_error());
      continue;
    }
    to_read_.push_back(item);
    keys_.push_back(item.op().op.key);
  }
  if (keys_.empty()) return;
  read_.assign(keys_.size(), {});
  // The outcome of each is in its result.
  (void)state_.store()->engine().Read(keys_, read_,
                                      {.now_unix_ms = now_unix_ms, .most_value_bytes = kLongBytes});
  for (size_t i = 0; i < to_read_.size(); ++i) {
    if (read_[i].left_out) {
      ReadLong(to_read_[i], now_unix_ms);
    } else {
      AddValue(to_read_[i], read_[i]);
    }
  }
}

// By itself, so that there is never more than one long value that nobody has counted; and not at
// all where there was no room for one before it.
void SessionGroup::ReadLong(const Item& item, uint64_t now_unix_ms) {
  if (const auto& no_room = item.message->left_out_error()) {
    return item.message->LeaveOut(item.index, *no_room);
  }
  const std::string_view key = item.op().op.key;
  ReadResult result;
  (void)state_.store()->engine().Read({&key, 1}, {&result, 1}, {.now_unix_ms = now_unix_ms});
  AddValue(item, result);
}

// Unless there is no room for it.
void SessionGroup::AddValue(const Item& item, ReadResult& result) {
  SessionMessage& message = *item.message;
  const uint64_t bytes = AnswerBytes(result);
  const uint64_t limit = state_.limits().max_batch_size;
  if (message.answer_bytes + bytes > limit) {
    return message.LeaveOut(item.index, AnswerTooLargeError(limit));
  }
  const Admission::Verdict verdict =
      state_.admission().Take(message.connection(), 0, bytes, message.held);
  if (!verdict.admitted) {
    recorder_.RecordRefusal(verdict.limit);
    return message.LeaveOut(item.index, OverloadedError(verdict));
  }
  message.answer_bytes += bytes;
  message.SetRead(item.index, std::move(result));
}

void SessionGroup::Write(std::span<const Item> items, uint64_t now_unix_ms) {
  while (!items.empty()) {
    const auto some = items.first(std::min(kMostWrites, items.size()));
    WriteSome(some, now_unix_ms);
    items = items.subspan(some.size());
  }
}

void SessionGroup::WriteSome(std::span<const Item> items, uint64_t now_unix_ms) {
  ops_.clear();
  for (const Item& item : items) ops_.push_back(item.op().op);
  written_.assign(ops_.size(), {});
  // The outcome of each is in its result.
  (void)state_.store()->engine().Write(
      ops_, written_, {.atomic = false, .now_unix_ms = now_unix_ms, .applied_index = std::nullopt});
  recorder_.RecordGroup(ops_.size());
  for (size_t i = 0; i < items.size(); ++i) {
    state_.NoteWrites(written_[i].outcome, {&ops_[i], 1}, {&written_[i], 1});
    items[i].message->SetWritten(items[i].index, written_[i]);
  }
}

void SessionGroup::ShareCost(const Cost& cost) {
  uint64_t operations = 0;
  uint64_t weight = 0;
  for (const SessionMessage* message : together_) {
    operations += message->served_in_group;
    weight += message->weight_in_group;
  }
  CostShares shares(cost, operations, weight);
  for (SessionMessage* message : together_) {
    message->cost = message->cost + cost;
    message->group_operations += operations;
    const uint64_t own_weight = std::exchange(message->weight_in_group, 0);
    const uint64_t own_operations = std::exchange(message->served_in_group, 0);
    message->share = message->share + shares.Next(own_weight, own_operations);
  }
}

}  // namespace lodgekv::server
