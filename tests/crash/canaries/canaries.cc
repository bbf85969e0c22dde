#include "tests/crash/canaries/canaries.h"

#include "tests/engines/engine_rows.h"
#include "tests/engines/faults.h"

namespace lodgekv::test {
namespace {

constexpr Canary PoolRow(std::string_view name, std::string_view group, Bugs bugs, Fault fault) {
  return {name, group, bugs, fault, Under::kBoth, In::kAny, By::kPool};
}

constexpr Canary JournalRow(std::string_view name, Bugs bugs, std::string_view asked) {
  return {name, "journal", bugs, Ask(asked), Under::kTornWords, In::kAny, By::kJournal};
}

// For what happens while another thread writes a group.
constexpr Canary ThreadsRow(std::string_view name, Bugs bugs, std::string_view asked) {
  return {name, "journal", bugs, Ask(asked), Under::kTornWords, In::kAny, By::kJournalThreads};
}

// For the begin and the end of a session.
constexpr Canary SessionRow(std::string_view name, Bugs bugs, std::string_view asked) {
  return {name, "journal", bugs, Ask(asked), Under::kTornWords, In::kAny, By::kFile};
}

constexpr Canary kPool[] = {
    PoolRow("identity before the rest", "pool creation", Bc(7), Ask("pmem.create.identity_first")),
    PoolRow("slot not flushed", "pool state", Bc(1), Forget("pmem.state.1")),
    PoolRow("slot not fenced before the word", "pool state", Bc(3), DropFence("pmem.state.1")),
    PoolRow("written over the slot that counts", "pool state", Bc(4, 7),
            Ask("pmem.state.in_place")),
    PoolRow("word not flushed", "pool state", Bc(1), Forget("pmem.state.2")),
    PoolRow("word not fenced", "pool state", Bc(2), DropFence("pmem.state.2")),
    PoolRow("class not flushed", "chunk table", Bc(1), Forget("pmem.chunk.1")),
    PoolRow("class not fenced", "chunk table", Bc(2), DropFence("pmem.chunk.1")),
    PoolRow("heads not flushed", "chunk table", Bc(1), Forget("pmem.zero_heads.1")),
    PoolRow("heads not fenced before the class", "chunk table", Bc(3, 18),
            DropFence("pmem.zero_heads.1")),
    PoolRow("free space of chunks not flushed", "pool seal", Bc(1),
            Ask("pmem.seal.content_not_flushed")),
    PoolRow("checksums of chunks not flushed", "pool seal", Bc(1), Forget("pmem.seal.2")),
    PoolRow("seal stays while the state changes", "pool seal", Bc(3),
            Ask("pmem.state.stays_sealed")),
    PoolRow("stores without flushes leave no mark", "pool unflushed", Bc(1),
            Ask("pmem.unflushed.not_marked")),
    PoolRow("what was not flushed is not flushed later", "pool unflushed", Bc(1),
            Forget("pmem.unflushed.2")),
    PoolRow("later flushes not fenced before the mark goes", "pool unflushed", Bc(3),
            DropFence("pmem.unflushed.2")),
    PoolRow("mark goes before all is flushed", "pool unflushed", Bc(3, 12),
            Ask("pmem.unflushed.cleared_first")),
    PoolRow("numbers handed out again after a crash", "sequence", Bc(24),
            Ask("pmem.sequence.not_durable")),
    JournalRow("group acknowledged before it is durable", Bc(2, 9), "pmem.journal.not_awaited"),
    JournalRow("checkpoint written before the pages are back", Bc(3, 5),
               "pmem.journal.declared_first"),
    JournalRow("checkpoint takes the open group for written back", Bc(3),
               "pmem.journal.retires_open_group"),
    JournalRow("segment used again and no checkpoint says so", Bc(5),
               "pmem.journal.freed_undeclared"),
    JournalRow("both checkpoints in one block", Bc(4, 7), "pmem.journal.one_block"),
    JournalRow("pool synced instead, older groups count", Bc(15), "pmem.journal.sync_undeclared"),
    JournalRow("space given back is not revoked", Bc(15, 21), "pmem.journal.not_revoked"),
    JournalRow("flushed lines of it still copied", Bc(15, 21), "pmem.journal.notes_stay"),
    JournalRow("revocation counts for later groups too", Bc(12), "pmem.journal.revoked_for_ever"),
    JournalRow("replayed newest first", Bc(15, 16), "pmem.journal.newest_first"),
    JournalRow("libpmemobj's words replayed", Bc(15), "pmem.journal.foreign_words"),
    JournalRow("torn group counts", Bc(10), "pmem.journal.no_checksum"),
    JournalRow("commit word in the pool before its group", Bc(3), "pmem.journal.words_at_once"),
    ThreadsRow("commit word not in another's copy of its line", Bc(15),
               "pmem.journal.words_not_in_copies"),
    ThreadsRow("checkpoint takes the group being written for written back", Bc(3, 5),
               "pmem.journal.words_retired"),
    JournalRow("page of a commit word not written back again", Bc(5),
               "pmem.journal.words_untouched"),
    JournalRow("page of a line that is only flushed stays clean", Bc(1, 5),
               "pmem.journal.pages_stay_clean"),
    JournalRow("checkpoint in the journal, and not in the pool's mark", Bc(3),
               "pmem.journal.checkpoint_unmarked"),
    JournalRow("page of the checkpoint's mark not written back", Bc(1, 3),
               "pmem.journal.mark_not_written_back"),
    JournalRow("group marked before it is durable", Bc(3), "pmem.journal.group_marked_early"),
    SessionRow("groups of every session count", Bc(25), "pmem.journal.any_session"),
    SessionRow("pool names a session before its journal does", Bc(3), "pmem.journal.word_first"),
    SessionRow("pool lets go before it is whole", Bc(3, 12), "pmem.journal.let_go_early"),
    SessionRow("end without a sync", Bc(3), "pmem.journal.end_unsynced"),
    SessionRow("marks of a session before stay beside the next", Bc(3, 25),
               "pmem.journal.marks_stay"),
};

constexpr Canary GenerationsRow(std::string_view name, Bugs bugs, Fault fault) {
  return {name, "generations", bugs, fault, Under::kBoth, In::kAny, By::kGenerations};
}

constexpr Canary kNodeParts[] = {
    GenerationsRow("content not flushed", Bc(1), Forget("node.two_generations.1")),
    GenerationsRow("header not flushed", Bc(1), Ask("node.two_generations.header_not_flushed")),
    GenerationsRow("content not fenced before the root", Bc(3),
                   DropFence("node.two_generations.1")),
    GenerationsRow("space not committed before the root", Bc(3, 5),
                   Ask("node.two_generations.space_not_committed")),
    GenerationsRow("root not flushed", Bc(1), Forget("node.two_generations.3")),
    GenerationsRow("root not fenced", Bc(2), DropFence("node.two_generations.3")),
    GenerationsRow("old one freed before the root is durable", Bc(5, 21),
                   Ask("node.two_generations.freed_early")),
    GenerationsRow("old one never freed", Bc(11), Ask("node.two_generations.old_stays")),
};

}  // namespace

std::span<const Canary> CanariesOf(std::string_view engine) {
  const EngineRows* rows = RowsOf(engine);
  return rows != nullptr ? rows->canaries : std::span<const Canary>();
}

std::span<const Canary> ScheduleCanariesOf(std::string_view engine) {
  const EngineRows* rows = RowsOf(engine);
  return rows != nullptr ? rows->schedule_canaries : std::span<const Canary>();
}

std::span<const Canary> PoolCanaries() { return kPool; }

std::span<const Canary> NodePartCanaries() { return kNodeParts; }

}  // namespace lodgekv::test
