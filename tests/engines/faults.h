// Short names of canary faults for their tables (tests/crash/lab/tracer.h).
#pragma once

#include <string_view>

#include "tests/crash/lab/tracer.h"

namespace lodgekv::test {

constexpr Fault DropFence(std::string_view point) { return {Fault::Kind::kDropFence, point}; }
constexpr Fault LateFence(std::string_view point) { return {Fault::Kind::kLateFence, point}; }
constexpr Fault Forget(std::string_view point) { return {Fault::Kind::kForgetFlushes, point}; }
constexpr Fault DropFlushes(std::string_view point) { return {Fault::Kind::kDropFlushes, point}; }
constexpr Fault Misdirect(std::string_view point) { return {Fault::Kind::kFlushElsewhere, point}; }
constexpr Fault Ask(std::string_view name) { return {Fault::Kind::kAsk, name}; }

}  // namespace lodgekv::test
