// The base of every conformance test: a fresh engine of one case. After the test its structure is
// checked and it is closed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tests/support/engine_calls.h"
#include "tests/support/engine_case.h"
#include "tests/support/engine_harness.h"
#include "tests/support/key_sets.h"
#include "tests/support/random.h"

namespace lodgekv::test {

class ConformanceTest : public ::testing::TestWithParam<EngineCase> {
 protected:
  ConformanceTest() : seed_note_(__FILE__, __LINE__, SeedNote()) {}

  // Skips the test if the engine says that it does not support inline pairs.
  void SetUp() override;
  void TearDown() override;

  // How the engine is created; a test suite may need another pool.
  virtual HarnessOptions Options() const { return {}; }

  Engine& engine() { return harness_->engine(); }
  EngineHarness& harness() { return *harness_; }
  KeyFormat format() const { return GetParam().key_format; }
  bool fixed64() const { return GetParam().fixed64(); }
  bool has_versions() const { return GetParam().has_versions(); }

  // Keys in the order of their numbers, values that tell their ids.
  std::string Key(uint64_t number) const { return OrderedKey(format(), number); }
  std::string Value(uint64_t id, size_t bytes = 8) const { return ValueOf(format(), id, bytes); }

  // Puts keys [begin, end), each with its number as value.
  void PutRange(uint64_t begin, uint64_t end);
  // Fails unless the content is exactly keys [begin, end), each with its number as value.
  void ExpectRange(uint64_t begin, uint64_t end);
  void ExpectValue(std::string_view key, std::string_view value);
  void ExpectMissing(std::string_view key);
  // Check must find no problems and count as many keys as CountKeys.
  void ExpectSound();

 private:
  ::testing::ScopedTrace seed_note_;
  std::unique_ptr<EngineHarness> harness_;
};

}  // namespace lodgekv::test
