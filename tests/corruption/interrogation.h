// What a victim holds, and the questions that it has to answer: before and after more is written to
// it, beside its damage.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "index/engine.h"
#include "tests/corruption/trials.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

using Content = std::map<std::string, std::string>;

// Puts, replaces and deletes in all ways of writing, and records the expected content. The last
// `fresh` puts come after everything else.
Content Furnish(Engine& engine, const EngineCase& engine_case, uint64_t puts, uint64_t fresh);

// Compares all answers with the expected content; then writes some more, and asks again.
Verdict Interrogate(Engine& engine, const EngineCase& engine_case, const Content& content);

// Whether the message names a place: an offset, a row, a word, a number of bytes.
bool NamesAPlace(const std::string& message);

}  // namespace lodgekv::test
