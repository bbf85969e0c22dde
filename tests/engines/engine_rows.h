// What the tests must know about one engine that its registration does not tell. One file here for
// each: tests/engines/NAME.cc. It is found by its name when the engine is registered.
#pragma once

#include <span>
#include <string_view>

#include "tests/corruption/unseen.h"
#include "tests/crash/canaries/bug_classes.h"
#include "tests/crash/canaries/canaries.h"

namespace lodgekv::test {

class LayoutWriter;

struct EngineRows {
  std::string_view engine;
  // The mistakes that the explorer must notice, and those that only several threads make:
  // deterministic schedules must notice them.
  std::span<const Canary> canaries;
  std::span<const Canary> schedule_canaries;
  std::span<const DoesNotApply> classes_without;
  // Where damage can change an answer.
  std::span<const Unseen> unseen;
  // Writes go to a log first: each takes a number there, whatever the key format, a batch keeps
  // nobody waiting, and the recovery of a pool that a killed process left replays entries.
  bool has_log = false;
  // Its structs on the medium (tests/media).
  void (*write_layouts)(LayoutWriter& writer) = nullptr;
};

std::span<const EngineRows* const> AllEngineRows();
// Null: the engine has no file here.
const EngineRows* RowsOf(std::string_view engine);

}  // namespace lodgekv::test
