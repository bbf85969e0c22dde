#include "tests/crash/canaries/bug_classes.h"

#include <stdexcept>

#include "tests/engines/engine_rows.h"

namespace lodgekv::test {
namespace {

constexpr std::string_view kNames[kBugClasses] = {
    "missing flush",
    "missing last fence",
    "payload not ordered before what commits it",
    "two words that must be one",
    "slot used again before the word that frees it is durable",
    "duplicate after a move or a split",
    "a root is changed in more than one step",
    "lock or version left on the medium",
    "visible before durable",
    "a store torn or merged",
    "leak",
    "recovery reads what was not fenced or committed",
    "recovery does not decide twice alike",
    "stale log entry of a segment used again",
    "replay over a newer value",
    "order across logs",
    "a hole in a log hides acknowledged entries",
    "an orphan is taken for live",
    "a separator moved by recovery",
    "wrong address flushed",
    "freed and used again under a reader, or before the unlinking is durable",
    "a rebuild half done is taken for whole",
    "a checksum that does not cover, or is not verified",
    "a sequence or version begins again",
    "a stale copy comes back into range",
    "what is rebuilt in DRAM is wrong",
};

}  // namespace

std::string_view BugClassName(unsigned bug_class) {
  if (bug_class < 1 || bug_class > kBugClasses) throw std::out_of_range("no such bug class");
  return kNames[bug_class - 1];
}

std::span<const DoesNotApply> ClassesWithout(std::string_view engine) {
  const EngineRows* rows = RowsOf(engine);
  return rows != nullptr ? rows->classes_without : std::span<const DoesNotApply>();
}

}  // namespace lodgekv::test
