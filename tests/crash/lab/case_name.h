// For INSTANTIATE_TEST_SUITE_P over engine cases and crash models: lodgetree_bytes_prefixes, ...
#pragma once

#include <string>
#include <tuple>

#include "tests/crash/lab/tracer.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct CrashCaseName {
  template <class ParamInfo>
  std::string operator()(const ParamInfo& info) const {
    const auto& [engine_case, model] = info.param;
    return engine_case.Name() + (model == CrashModel::kLinePrefix ? "_prefixes" : "_torn");
  }
};

}  // namespace lodgekv::test
