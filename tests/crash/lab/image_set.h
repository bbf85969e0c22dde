// The images that a crash may leave at this point, as independent choices: how many stores to a
// line, or to a word, survive.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/crash/lab/script.h"
#include "tests/crash/lab/tracer.h"
#include "tests/support/random.h"

namespace lodgekv::test {

class ImageSet {
 public:
  // For each choice, the number of its stores that survive.
  using Picks = std::vector<uint16_t>;
  // Returns false to stop the enumeration.
  using Visitor = absl::FunctionRef<bool(const Picks&)>;

  ImageSet(const CrashTracer& tracer, CrashModel model);

  // The number of images, counted up to 2^62.
  uint64_t count() const;

  // Visits all images if there are at most `exhaustive_up_to`. Otherwise: nothing kept, everything
  // kept, each line alone kept, each line alone dropped, and `samples` random ones. Returns whether
  // these were all images.
  bool Visit(uint64_t exhaustive_up_to, unsigned samples, Random& random, Visitor visit) const;
  // One random image: nothing kept, everything, one line alone kept or dropped, or any mixture.
  Picks Draw(Random& random) const;

  // Writes the surviving stores into `image`, which holds the durable content.
  void Apply(const Picks& picks, std::byte* image) const;
  // Restores in `image` every word that Apply may have written.
  void Undo(std::span<const std::byte> durable, std::byte* image) const;

  // Human-readable: the lines that survive in part.
  std::string Describe(const Picks& picks) const;
  // The lines that lose something, word by word, each with the name of its place.
  using NameOfPlace = absl::FunctionRef<std::string(uint64_t offset)>;
  std::string Explain(const Picks& picks, std::span<const std::byte> durable,
                      NameOfPlace name) const;

  // The same picks by line, which is comparable with other images of the same position in another
  // run. A line that is missing in `kept`, or has another form there, keeps everything.
  KeptOfLines ByLine(const Picks& picks) const;
  Picks FromLines(const KeptOfLines& kept) const;

 private:
  struct Survivor {
    uint32_t word;
    uint16_t choice;
    uint16_t rank;  // survives if more than `rank` stores of the choice are picked
    uint64_t value;
  };
  struct Line {
    uint32_t number;
    uint16_t first_choice;
    uint16_t end_choice;
  };

  void AddLine(const CrashTracer& tracer, uint32_t line, CrashModel model);
  bool VisitAll(Visitor visitor) const;
  bool VisitEdges(Visitor visitor) const;
  Picks All(bool kept) const;
  Picks Any(Random& random) const;
  void Set(const Line& line, bool kept, Picks* picks) const;

  std::vector<Survivor> survivors_;
  std::vector<uint16_t> limits_;  // of each choice: its number of stores
  std::vector<Line> lines_;
};

}  // namespace lodgekv::test
