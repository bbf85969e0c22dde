#include "tests/crash/scenarios/batch_in_flight.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/explorer/plan.h"
#include "tests/crash/lab/image_set.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << 20;
constexpr uint64_t kKeys = 3003;  // two thirds of them are put
constexpr uint64_t kExhaustiveUpTo = 64;
constexpr unsigned kSamples = 100;

ExplorerOptions OptionsOf(const EngineCase& engine_case, CrashModel model) {
  ExplorerOptions options;
  options.engine_case = engine_case;
  options.model = model;
  options.long_fences = DrawLongFences(engine_case, model, "batch in flight", 0);
  options.memory_bytes = kBytes;
  return options;
}

absl::Status Open(const ExplorerOptions& options, const ArenaMemory& memory, pmem::Tracer* tracer,
                  OpenPool* open) {
  return OpenImage(options, OptionsFor(options.engine_case), memory, tracer, open);
}

void Must(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

std::string KeyOf(const EngineCase& engine_case, uint64_t number) {
  return OrderedKey(engine_case.key_format, number);
}

// Values have 40 bytes where possible, so that no pair fits into a word.
std::string NumberedValue(const EngineCase& engine_case, uint64_t number) {
  return ValueOf(engine_case.key_format, number, 40);
}

// Puts every other key, so that the other thread's keys are new: otherwise it would wait for the
// stopped thread to free replaced records.
void PutMany(const EngineCase& engine_case, Engine& engine, uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; i += 2) {
    const auto result = Put(engine, KeyOf(engine_case, i), NumberedValue(engine_case, i));
    if (result.outcome != Outcome::kOk) throw std::runtime_error("a put was refused");
  }
}

void Check(const ExplorerOptions& options, const ArenaMemory& image, Fault fault,
           BatchInFlight* seen) {
  const EngineCase& engine_case = options.engine_case;
  CrashTracer tracer(image.span(), fault);
  OpenPool there;
  const bool opened = Open(options, image, &tracer, &there).ok();
  seen->fault_happened |= tracer.fault_happened();
  if (!opened) {
    ++seen->refused;
    return;
  }
  unsigned found = 0;
  for (const uint64_t number : {uint64_t{0}, kKeys - 1}) {
    const ReadResult result = Get(*there.engine, KeyOf(engine_case, number));
    found += result.value == NumberedValue(engine_case, kKeys + number) ? 1 : 0;
  }
  ++(found == 0 ? seen->with_none : found == 2 ? seen->with_all : seen->with_part);
}

}  // namespace

BatchInFlight RunBatchInFlightScenario(const EngineCase& engine_case, CrashModel model,
                                       Fault fault) {
  const ExplorerOptions options = OptionsOf(engine_case, model);
  ArenaMemory memory(kBytes);
  Must(MakePool(options, memory));
  {
    OpenPool fresh;
    Must(Open(options, memory, nullptr, &fresh));
    PutMany(engine_case, *fresh.engine, 0, kKeys);
  }
  CrashTracer tracer(memory.span(), fault);
  OpenPool open;
  Must(Open(options, memory, &tracer, &open));
  Engine& engine = *open.engine;
  const std::string keys[] = {KeyOf(engine_case, 0), KeyOf(engine_case, kKeys - 1)};
  const auto put_both = [&](uint64_t value) {
    const std::string values[] = {NumberedValue(engine_case, value),
                                  NumberedValue(engine_case, value + kKeys - 1)};
    (void)Atomic(engine, {PutOp(keys[0], values[0]), PutOp(keys[1], values[1])});
  };
  // So that the batch finds its space allocated, and its first fence is that of its log.
  put_both(0);

  BatchInFlight seen;
  ArenaMemory image(kBytes);
  Random random("batch in flight");
  bool stopped = false;
  tracer.before_fence = [&] {
    if (std::exchange(stopped, true)) return;
    std::thread other([&] { PutMany(engine_case, engine, kKeys / 3, kKeys * 2 / 3); });
    other.join();
    const ImageSet images(tracer, model);
    images.Visit(kExhaustiveUpTo, kSamples, random, [&](const ImageSet::Picks& picks) {
      ++seen.images;
      std::memcpy(image.span().data(), tracer.durable().data(), kBytes);
      images.Apply(picks, image.span().data());
      Check(options, image, fault, &seen);
      return true;
    });
  };
  put_both(kKeys);
  seen.fault_happened |= tracer.fault_happened();
  return seen;
}

}  // namespace lodgekv::test
