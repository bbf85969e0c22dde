// Instantiates an engine's class for a registry entry: a template over the codec of the pool's key
// format.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "index/engine_info.h"
#include "index/node/codec.h"

namespace lodgekv {

template <template <class> class Tree>
absl::StatusOr<std::unique_ptr<Engine>> CreateByKeyFormat(const EngineContext& context) {
  return context.key_format == KeyFormat::kFixed64 ? Tree<Fixed64Codec>::Create(context)
                                                   : Tree<BytesCodec>::Create(context);
}

template <template <class> class Tree>
absl::StatusOr<std::unique_ptr<Engine>> RecoverByKeyFormat(const EngineContext& context,
                                                           RecoveryReport* report) {
  return context.key_format == KeyFormat::kFixed64 ? Tree<Fixed64Codec>::Recover(context, report)
                                                   : Tree<BytesCodec>::Recover(context, report);
}

template <template <class> class Tree>
absl::StatusOr<std::unique_ptr<Engine>> BulkLoadByKeyFormat(const EngineContext& context,
                                                            const BulkLoad& load) {
  return context.key_format == KeyFormat::kFixed64 ? Tree<Fixed64Codec>::BulkLoad(context, load)
                                                   : Tree<BytesCodec>::BulkLoad(context, load);
}

}  // namespace lodgekv
