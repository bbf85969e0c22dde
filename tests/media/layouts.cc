#include "tests/media/layouts.h"

#include "index/node/batch_intent.h"
#include "index/node/record.h"
#include "index/node/separator.h"
#include "index/node/two_generations.h"
#include "index/pmem/internal/journal_layout.h"
#include "index/pmem/internal/pool_header.h"
#include "tests/engines/engine_rows.h"
#include "tests/engines/layout_writer.h"

namespace lodgekv::test {
namespace {

void WritePool(LayoutWriter& writer) {
  using pmem::media::ChunkRow;
  using pmem::media::Header;
  using pmem::media::Identity;
  using pmem::media::StateSlot;
  writer.Struct("Header", sizeof(Header));
  LODGEKV_FIELD(Header, identity);
  LODGEKV_FIELD(Header, state_word);
  LODGEKV_FIELD(Header, journal_word);
  LODGEKV_FIELD(Header, unflushed_word);
  LODGEKV_FIELD(Header, checkpoint_mark);
  LODGEKV_FIELD(Header, group_mark);
  LODGEKV_FIELD(Header, slots);
  LODGEKV_FIELD(Header, engine_area);
  writer.Struct("Identity", sizeof(Identity));
  LODGEKV_FIELD(Identity, magic);
  LODGEKV_FIELD(Identity, format_version);
  LODGEKV_FIELD(Identity, header_bytes);
  LODGEKV_FIELD(Identity, pool_id);
  LODGEKV_FIELD(Identity, engine);
  LODGEKV_FIELD(Identity, media_version);
  LODGEKV_FIELD(Identity, key_format);
  LODGEKV_FIELD(Identity, inline_pairs);
  LODGEKV_FIELD(Identity, pool_bytes);
  LODGEKV_FIELD(Identity, chunk_bytes);
  LODGEKV_FIELD(Identity, object_bytes);
  LODGEKV_FIELD(Identity, chunk_rows);
  LODGEKV_FIELD(Identity, chunks_per_object);
  LODGEKV_FIELD(Identity, reserved);
  LODGEKV_FIELD(Identity, crc);
  writer.Struct("StateSlot", sizeof(StateSlot));
  LODGEKV_FIELD(StateSlot, generation);
  LODGEKV_FIELD(StateSlot, sequence);
  LODGEKV_FIELD(StateSlot, applied_index);
  LODGEKV_FIELD(StateSlot, term);
  LODGEKV_FIELD(StateSlot, cluster_id);
  LODGEKV_FIELD(StateSlot, cluster_epoch);
  LODGEKV_FIELD(StateSlot, flags);
  LODGEKV_FIELD(StateSlot, seal);
  LODGEKV_FIELD(StateSlot, reserved);
  LODGEKV_FIELD(StateSlot, crc);
  writer.Struct("ChunkRow", sizeof(ChunkRow));
  LODGEKV_FIELD(ChunkRow, pool_uuid);
  LODGEKV_FIELD(ChunkRow, object);
  LODGEKV_FIELD(ChunkRow, class_word);
  LODGEKV_FIELD(ChunkRow, content);
}

void WriteJournal(LayoutWriter& writer) {
  using pmem::media::JournalCheckpoint;
  using pmem::media::JournalGroup;
  using pmem::media::JournalHeader;
  writer.Struct("JournalHeader", sizeof(JournalHeader));
  LODGEKV_FIELD(JournalHeader, magic);
  LODGEKV_FIELD(JournalHeader, format_version);
  LODGEKV_FIELD(JournalHeader, segments);
  LODGEKV_FIELD(JournalHeader, pool_id);
  LODGEKV_FIELD(JournalHeader, session);
  LODGEKV_FIELD(JournalHeader, segment_bytes);
  LODGEKV_FIELD(JournalHeader, needed);
  LODGEKV_FIELD(JournalHeader, crc);
  writer.Struct("JournalCheckpoint", sizeof(JournalCheckpoint));
  LODGEKV_FIELD(JournalCheckpoint, replay_from);
  LODGEKV_FIELD(JournalCheckpoint, crc);
  writer.Struct("JournalGroup", sizeof(JournalGroup));
  LODGEKV_FIELD(JournalGroup, magic);
  LODGEKV_FIELD(JournalGroup, sequence);
  LODGEKV_FIELD(JournalGroup, payload_bytes);
  LODGEKV_FIELD(JournalGroup, crc);
}

void WriteRecords(LayoutWriter& writer) {
  using media::RecordHeader;
  writer.Struct("RecordHeader", sizeof(RecordHeader));
  LODGEKV_FIELD(RecordHeader, crc_and_lengths);
  LODGEKV_FIELD(RecordHeader, version);
  LODGEKV_FIELD(RecordHeader, value_bytes);
  writer.Struct("FenceWords", sizeof(FenceWords));
  LODGEKV_FIELD(FenceWords, word);
  LODGEKV_FIELD(FenceWords, meta);
  using media::IntendedOp;
  using media::IntentHeader;
  writer.Struct("IntentHeader", sizeof(IntentHeader));
  LODGEKV_FIELD(IntentHeader, checksum);
  LODGEKV_FIELD(IntentHeader, count);
  LODGEKV_FIELD(IntentHeader, has_applied_index);
  LODGEKV_FIELD(IntentHeader, applied_index);
  writer.Struct("IntendedOp", sizeof(IntendedOp));
  LODGEKV_FIELD(IntendedOp, key);
  LODGEKV_FIELD(IntendedOp, value);
  LODGEKV_FIELD(IntendedOp, remove);
  using media::GenerationHeader;
  writer.Struct("GenerationHeader", sizeof(GenerationHeader));
  LODGEKV_FIELD(GenerationHeader, checksum);
  LODGEKV_FIELD(GenerationHeader, bytes);
}

}  // namespace

std::string Layouts() {
  LayoutWriter writer;
  WritePool(writer);
  WriteJournal(writer);
  WriteRecords(writer);
  for (const EngineRows* rows : AllEngineRows()) {
    if (rows->write_layouts != nullptr) rows->write_layouts(writer);
  }
  return writer.Take();
}

}  // namespace lodgekv::test
