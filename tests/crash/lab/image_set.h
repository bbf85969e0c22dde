// The images that a crash may leave now, as choices that are independent of one another: how many
// of a line's stores survive, or of a word's.
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
  // For each choice the number of its stores that survive.
  using Picks = std::vector<uint16_t>;
  // Returns false to end the enumeration.
  using Visitor = absl::FunctionRef<bool(const Picks&)>;

  ImageSet(const CrashTracer& tracer, CrashModel model);

  // All images, at most 2^62 are counted.
  uint64_t count() const;

  // All of them when they are at most `exhaustive_up_to`; else nothing kept, everything kept, each
  // line alone kept, each alone dropped, and `samples` drawn at random. True: these were all.
  bool Visit(uint64_t exhaustive_up_to, unsigned samples, Random& random, Visitor visitor) const;

  // One image at random: nothing kept, everything, one line alone kept or dropped, or any.
  Picks Draw(Random& random) const;

  // Writes the survivors into `image`, which holds what is durable.
  void Apply(const Picks& picks, std::byte* image) const;
  // Restores in `image` every word that Apply may have written.
  void Undo(std::span<const std::byte> durable, std::byte* image) const;

  // The lines of which not everything or not nothing survives: for a person.
  std::string Describe(const Picks& picks) const;
  // The lines of which something is lost, word by word, with the name of each place.
  using NameOfPlace = absl::FunctionRef<std::string(uint64_t offset)>;
  std::string Explain(const Picks& picks, std::span<const std::byte> durable,
                      NameOfPlace name) const;

  // The same by line, which other images of the same moment of another run may share. A line that
  // `kept` has not, or not in this form, keeps everything.
  KeptOfLines ByLine(const Picks& picks) const;
  Picks FromLines(const KeptOfLines& kept) const;

 private:
  struct Survivor {
    uint32_t word;
    uint16_t choice;
    uint16_t rank;  // survives when more than `rank` stores of the choice are picked
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
  std::vector<uint16_t> limits_;  // of each choice: its stores
  std::vector<Line> lines_;
};

}  // namespace lodgekv::test
