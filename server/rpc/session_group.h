// Turns of sessions that go to the engine together: all puts and deletes in one Write, so that they
// share fences (on a file: one sync), and all gets in one Read. An atomic message goes by itself.
//
// Only operations on one key have an order. Where a message, or the turns together, have gets and
// writes of one key, they go in rounds: gets, writes, gets, and so on, each operation in the first
// one that comes after all before it on the key. Where a round waits for a disk a group ends after
// a few of them, and what is left of its turns is queued again, behind what others want.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "index/cost.h"
#include "index/engine.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"
#include "server/rpc/session_turn.h"
#include "server/rpc/work_queue.h"

namespace lodgekv::server {

class SessionGroup {
 public:
  SessionGroup(ServerState& state, RpcRecorder& recorder) : state_(state), recorder_(recorder) {}

  // A new group, of the first turns that are queued: no more than reach so many operations.
  void Take(WorkQueue<SessionTurn, 2>& turns, uint64_t most_operations);
  static constexpr size_t kAllRounds = SIZE_MAX;
  // Two of writes.
  static constexpr size_t kFewRounds = 4;

  // Does what the messages ask, in at most so many rounds, and makes the answers of those of which
  // nothing is left.
  void Serve(uint64_t now_unix_ms, size_t most_rounds);
  // All turns: those that are served are to be delivered, others to be queued again.
  std::span<SessionTurn* const> turns() const { return turns_; }

 private:
  // An operation of a message.
  struct Item {
    SessionMessage* message;
    size_t index;
    size_t round;  // even: of gets; odd: of writes

    const SessionOp& op() const { return message->ops()[index]; }
  };

  void Collect();
  void SetRounds();
  void SortByRound();
  void ServeTogether(uint64_t now_unix_ms, size_t most_rounds);
  void ServeAtomic(SessionMessage& message, uint64_t now_unix_ms);
  void Read(std::span<const Item> items, uint64_t now_unix_ms);
  void ReadSome(std::span<const Item> items, uint64_t now_unix_ms);
  void ReadLong(const Item& item, uint64_t now_unix_ms);
  void AddValue(const Item& item, ReadResult& result);
  void Write(std::span<const Item> items, uint64_t now_unix_ms);
  void WriteSome(std::span<const Item> items, uint64_t now_unix_ms);
  void ShareCost(const Cost& cost);

  ServerState& state_;
  RpcRecorder& recorder_;
  // Of one group; members to keep their capacity.
  std::vector<SessionTurn*> turns_;
  std::vector<SessionMessage*> together_;
  std::vector<Item> items_;
  std::vector<Item> sorted_;
  std::vector<size_t> ends_;
  absl::flat_hash_map<absl::string_view, size_t> round_of_key_;
  std::vector<Item> to_read_;
  std::vector<std::string_view> keys_;
  std::vector<ReadResult> read_;
  std::vector<WriteOp> ops_;
  std::vector<WriteResult> written_;
};

}  // namespace lodgekv::server
