// The records of a node's leaves, mirrored in DRAM (`bytes` keys): a read goes from the node to the
// record and never touches the leaf, whose line on the medium would be one more miss on its way.
//
// A word of 40 bits for each slot: the record's number in the pool, which is its offset / 16, and
// above it upper bits of the slot hash, as many as fit. Together with the fingerprint, which is the
// hash's low byte, they nearly always tell whether the record is the key's. Words of slots that do
// not count are arbitrary.
//
// Thread safety: that of the node (last_level_node.h), to which a mirror belongs for good.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "index/lodgetree/layout.h"
#include "index/pmem/pool.h"

namespace lodgekv::lodgetree {

// What a word means in a pool.
class RecordWordForm {
 public:
  static constexpr unsigned kBits = 40;
  static constexpr unsigned kBytes = kBits / 8;

  explicit RecordWordForm(uint64_t pool_bytes)
      : number_bits_(std::max<unsigned>(kBits - 8, std::bit_width((pool_bytes - 1) / kUnit))) {}

  // False: the pool has records whose numbers are too long.
  bool FitsPool() const { return number_bits_ <= kBits; }
  uint64_t WordOf(pmem::Offset record, uint16_t hash) const {
    return record / kUnit | HashBits(hash) << number_bits_;
  }
  // Whether the record of a slot with the fingerprint of `hash` may have that hash.
  bool MayHave(uint64_t word, uint16_t hash) const {
    return word >> number_bits_ == HashBits(hash);
  }
  pmem::Offset RecordOf(uint64_t word) const {
    return (word & ((uint64_t{1} << number_bits_) - 1)) * kUnit;
  }

 private:
  static constexpr uint64_t kUnit = 16;
  uint64_t HashBits(uint16_t hash) const { return hash >> (16 - (kBits - number_bits_)); }

  unsigned number_bits_;
};

// Of one leaf.
struct RecordRow {
  uint8_t bytes[kLeafSlots * RecordWordForm::kBytes + 1];

  void Set(unsigned slot, uint64_t word) {
    std::memcpy(bytes + slot * RecordWordForm::kBytes, &word, RecordWordForm::kBytes);
  }
};
static_assert(sizeof(RecordRow) % sizeof(uint64_t) == 0);

struct alignas(64) RecordMirror {
  RecordRow rows[kNodeSlots];
  uint64_t beyond;  // read with the last words

  // May be read while it changes: the caller validates.
  uint64_t WordAt(unsigned leaf, unsigned slot) const {
    uint64_t word;
    std::memcpy(&word, AddressOf(leaf, slot), sizeof(word));
    return word & ((uint64_t{1} << RecordWordForm::kBits) - 1);
  }
  const void* AddressOf(unsigned leaf, unsigned slot) const {
    return reinterpret_cast<const char*>(this) + leaf * sizeof(RecordRow) +
           slot * RecordWordForm::kBytes;
  }
};

}  // namespace lodgekv::lodgetree
