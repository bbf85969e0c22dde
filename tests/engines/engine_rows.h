// What the tests need to know about one engine besides its registration. One file here per engine:
// tests/engines/NAME.cc. It is found by its name when the engine is registered.
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
  // The mistakes that the explorer must notice, and those that matter to several threads, which
  // deterministic schedules must notice.
  std::span<const Canary> canaries;
  std::span<const Canary> schedule_canaries;
  std::span<const DoesNotApply> classes_without;
  // Where damage can change an answer.
  std::span<const Unseen> unseen;
  // Writes go to a log first: each takes a sequence number, whatever the key format, a batch makes
  // nobody wait, and recovery after a kill replays entries.
  bool has_log = false;
  // Its structs on the medium (tests/media).
  void (*write_layouts)(LayoutWriter& writer) = nullptr;
};

std::span<const EngineRows* const> AllEngineRows();
// Null: the engine has no file here.
const EngineRows* RowsOf(std::string_view engine);

}  // namespace lodgekv::test
