#include "tests/support/pool_identity.h"

#include <string>

#include "tests/support/random.h"

namespace lodgekv::test {

pmem::PoolIdentity IdentityOf(const EngineCase& engine_case, uint64_t run) {
  pmem::PoolIdentity identity;
  identity.engine = std::string(engine_case.engine->name);
  identity.media_version = engine_case.engine->media_version;
  identity.key_format = engine_case.key_format;
  identity.inline_pairs = engine_case.inline_pairs;
  for (size_t i = 0; i < identity.pool_id.size(); ++i) {
    identity.pool_id[i] = static_cast<uint8_t>(MixBits(TestSeed() + run * 16 + i));
  }
  return identity;
}

}  // namespace lodgekv::test
