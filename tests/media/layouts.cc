#include "tests/media/layouts.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/lodgetree/layout.h"
#include "index/node/record.h"
#include "index/node/separator.h"
#include "index/pmem/pool_header.h"

namespace lodgekv::test {
namespace {

class Writer {
 public:
  void Struct(const char* name, size_t bytes) {
    absl::StrAppend(&text_, "struct ", name, " ", bytes, "\n");
  }
  void Field(const char* name, size_t offset, size_t bytes) {
    absl::StrAppend(&text_, "field ", name, " ", offset, " ", bytes, "\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

#define LODGEKV_FIELD(type, field) writer.Field(#field, offsetof(type, field), sizeof(type::field))

void WritePool(Writer& writer) {
  using pmem::media::ChunkRow;
  using pmem::media::Header;
  using pmem::media::Identity;
  using pmem::media::StateSlot;
  writer.Struct("Header", sizeof(Header));
  LODGEKV_FIELD(Header, identity);
  LODGEKV_FIELD(Header, state_word);
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

void WriteRecords(Writer& writer) {
  using media::RecordHeader;
  writer.Struct("RecordHeader", sizeof(RecordHeader));
  LODGEKV_FIELD(RecordHeader, crc_and_lengths);
  LODGEKV_FIELD(RecordHeader, version);
  LODGEKV_FIELD(RecordHeader, value_bytes);
  writer.Struct("FenceWords", sizeof(FenceWords));
  LODGEKV_FIELD(FenceWords, word);
  LODGEKV_FIELD(FenceWords, meta);
}

void WriteLodgeTree(Writer& writer) {
  using lodgetree::media::Leaf;
  using lodgetree::media::LogEntry;
  using lodgetree::media::LogHeader;
  using lodgetree::media::Slot;
  writer.Struct("Leaf", sizeof(Leaf));
  LODGEKV_FIELD(Leaf, commit);
  LODGEKV_FIELD(Leaf, watermark);
  LODGEKV_FIELD(Leaf, next);
  LODGEKV_FIELD(Leaf, fingerprints);
  LODGEKV_FIELD(Leaf, low);
  LODGEKV_FIELD(Leaf, slots);
  writer.Struct("Slot", sizeof(Slot));
  LODGEKV_FIELD(Slot, key);
  LODGEKV_FIELD(Slot, value);
  writer.Struct("LogHeader", sizeof(LogHeader));
  LODGEKV_FIELD(LogHeader, version);
  LODGEKV_FIELD(LogHeader, entries);
  LODGEKV_FIELD(LogHeader, checksum);
  LODGEKV_FIELD(LogHeader, reserved);
  writer.Struct("LogEntry", sizeof(LogEntry));
  LODGEKV_FIELD(LogEntry, key);
  LODGEKV_FIELD(LogEntry, value);
  LODGEKV_FIELD(LogEntry, meta);
  LODGEKV_FIELD(LogEntry, checksums);
  writer.Struct("EngineArea", sizeof(pmem::media::Header::engine_area));
  const auto word = [&](const char* name, lodgetree::media::EngineWord index) {
    writer.Field(name, index * sizeof(pmem::Word), sizeof(pmem::Word));
  };
  word("first_leaf", lodgetree::media::kFirstLeaf);
  word("log_entries", lodgetree::media::kLogEntries);
  word("longest_key", lodgetree::media::kLongestKey);
  word("fenced_below", lodgetree::media::kFencedBelow);
}

#undef LODGEKV_FIELD

}  // namespace

std::string Layouts() {
  Writer writer;
  WritePool(writer);
  WriteRecords(writer);
  WriteLodgeTree(writer);
  return writer.Take();
}

}  // namespace lodgekv::test
