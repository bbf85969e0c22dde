#include "tests/crash/lab/high_numbers.h"

#include <cstddef>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "index/pmem/crc32c.h"
#include "index/pmem/internal/pool_header.h"

namespace lodgekv::test {
namespace {

using pmem::media::Header;
using pmem::media::StateSlot;

// Writes the state that counts again, under the generation that `change` returns.
void Rewrite(const ArenaMemory& pool, const std::function<void(StateSlot&)>& change) {
  pmem::Medium medium({});
  auto* header = reinterpret_cast<Header*>(pool.span().data());
  pmem::PoolHeader loaded(medium, header);
  absl::Status status = loaded.LoadIdentity(pool.span().size());
  if (status.ok()) status = loaded.LoadState();
  if (!status.ok()) throw std::runtime_error(status.ToString());
  if (loaded.sealed()) throw std::runtime_error("the pool is sealed");
  StateSlot state = loaded.state();
  change(state);
  state.crc = pmem::Crc32c(loaded.crc_seed(), &state, offsetof(StateSlot, crc));
  const auto generation = static_cast<uint32_t>(state.generation);
  std::memcpy(&header->slots[generation % 2], &state, sizeof state);
  medium.Store(header->state_word, pmem::StateWord{generation, false}.Encode(loaded.crc_seed()));
}

}  // namespace

void SetNextSequence(const ArenaMemory& pool, uint64_t next) {
  Rewrite(pool, [&](StateSlot& state) { state.sequence = next; });
}

void SetStateGeneration(const ArenaMemory& pool, uint32_t generation) {
  Rewrite(pool, [&](StateSlot& state) { state.generation = generation; });
}

}  // namespace lodgekv::test
