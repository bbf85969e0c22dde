#include "tests/engines/engine_rows.h"

namespace lodgekv::test {

#include "engine_rows_list.inc"

std::span<const EngineRows* const> AllEngineRows() { return kAllRows; }

const EngineRows* RowsOf(std::string_view engine) {
  for (const EngineRows* rows : kAllRows) {
    if (rows->engine == engine) return rows;
  }
  return nullptr;
}

}  // namespace lodgekv::test
