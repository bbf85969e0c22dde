// Converts PiBench's options to a Store's, with environment variables where PiBench has no option.
#pragma once

#include <string_view>
#include <tree_api.hpp>

#include "absl/status/statusor.h"
#include "index/store.h"

namespace lodgekv::pibench {

// Pairs of 8 + 8 bytes use key format fixed64, others bytes. The variables of lodgekvd set the
// rest: LODGEKV_ENGINE_OPTIONS, LODGEKV_INLINE_PAIRS, LODGEKV_DURABILITY,
// LODGEKV_ALLOW_VOLATILE_MEDIUM. InvalidArgument names the variable, its value and valid ones. A
// volatile engine gets no pool.
absl::StatusOr<StoreOptions> StoreOptionsFor(std::string_view engine,
                                             const tree_options_t& options);

}  // namespace lodgekv::pibench
