#include "tests/crash/lab/image_set.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lodgekv::test {
namespace {

constexpr uint16_t kNoChoice = UINT16_MAX;
constexpr size_t kWords = CrashTracer::kWordsOfLine;

uint64_t LoadWord(std::span<const std::byte> image, uint32_t word) {
  uint64_t value;
  std::memcpy(&value, image.data() + word * CrashTracer::kWordBytes, sizeof value);
  return value;
}

void StoreWord(std::byte* image, uint32_t word, uint64_t value) {
  std::memcpy(image + word * CrashTracer::kWordBytes, &value, sizeof value);
}

}  // namespace

ImageSet::ImageSet(const CrashTracer& tracer, CrashModel model) {
  for (const uint32_t line : tracer.dirty_lines()) AddLine(tracer, line, model);
}

// A store that does not change its word offers no choice. This is known only if the stores before
// it survive whenever it does.
void ImageSet::AddLine(const CrashTracer& tracer, uint32_t line, CrashModel model) {
  const std::vector<PendingStore>& stores = tracer.StoresTo(line);
  const bool torn = model == CrashModel::kTornWords;
  const bool mixed =
      !torn && std::any_of(stores.begin(), stores.end(), [&](const PendingStore& store) {
        return store.stream != stores.front().stream;
      });
  std::array<uint16_t, kWords> word_choice;
  std::array<uint64_t, kWords> current;
  word_choice.fill(kNoChoice);
  for (uint32_t i = 0; i < kWords; ++i) {
    current[i] = LoadWord(tracer.durable(), line * static_cast<uint32_t>(kWords) + i);
  }
  uint16_t prefix_choice = kNoChoice;
  const auto first = static_cast<uint16_t>(limits_.size());
  for (const PendingStore& store : stores) {
    const size_t in_line = store.word % kWords;
    if (!mixed && current[in_line] == store.value) continue;
    current[in_line] = store.value;
    uint16_t& choice = torn || store.stream ? word_choice[in_line] : prefix_choice;
    if (choice == kNoChoice) {
      choice = static_cast<uint16_t>(limits_.size());
      limits_.push_back(0);
    }
    survivors_.push_back({store.word, choice, limits_[choice]++, store.value});
  }
  const auto end = static_cast<uint16_t>(limits_.size());
  if (end > first) lines_.push_back({line, first, end});
}

uint64_t ImageSet::count() const {
  uint64_t product = 1;
  for (const uint16_t limit : limits_) {
    if (product >> 46 != 0) return uint64_t{1} << 62;
    product *= limit + uint64_t{1};
  }
  return product;
}

bool ImageSet::Visit(uint64_t exhaustive_up_to, unsigned samples, Random& random,
                     Visitor visitor) const {
  if (count() <= exhaustive_up_to) return VisitAll(visitor);
  if (!VisitEdges(visitor)) return false;
  for (unsigned i = 0; i < samples; ++i) {
    if (!visitor(Any(random))) return false;
  }
  return false;
}

ImageSet::Picks ImageSet::Any(Random& random) const {
  Picks picks(limits_.size());
  for (size_t choice = 0; choice < picks.size(); ++choice) {
    picks[choice] = static_cast<uint16_t>(random.Below(limits_[choice] + uint64_t{1}));
  }
  return picks;
}

ImageSet::Picks ImageSet::Draw(Random& random) const {
  const uint64_t kind = random.Below(8);
  if (kind < 2 || lines_.empty()) return All(kind == 0);
  if (kind >= 6) return Any(random);
  const bool kept = kind < 4;
  Picks picks = All(kept);
  Set(lines_[random.Below(lines_.size())], !kept, &picks);
  return picks;
}

bool ImageSet::VisitAll(Visitor visitor) const {
  Picks picks(limits_.size(), 0);
  for (;;) {
    if (!visitor(picks)) return false;
    size_t digit = 0;
    while (digit < picks.size() && picks[digit] == limits_[digit]) picks[digit++] = 0;
    if (digit == picks.size()) return true;
    ++picks[digit];
  }
}

ImageSet::Picks ImageSet::All(bool kept) const { return kept ? limits_ : Picks(limits_.size(), 0); }

void ImageSet::Set(const Line& line, bool kept, Picks* picks) const {
  for (uint16_t choice = line.first_choice; choice < line.end_choice; ++choice) {
    (*picks)[choice] = kept ? limits_[choice] : 0;
  }
}

bool ImageSet::VisitEdges(Visitor visitor) const {
  for (const bool kept : {false, true}) {
    if (!visitor(All(kept))) return false;
    for (const Line& line : lines_) {
      Picks picks = All(kept);
      Set(line, !kept, &picks);
      if (!visitor(picks)) return false;
    }
  }
  return true;
}

void ImageSet::Apply(const Picks& picks, std::byte* image) const {
  for (const Survivor& survivor : survivors_) {
    if (picks[survivor.choice] > survivor.rank) StoreWord(image, survivor.word, survivor.value);
  }
}

void ImageSet::Undo(std::span<const std::byte> durable, std::byte* image) const {
  for (const Survivor& survivor : survivors_) {
    StoreWord(image, survivor.word, LoadWord(durable, survivor.word));
  }
}

std::string ImageSet::Describe(const Picks& picks) const {
  std::string text;
  for (const Line& line : lines_) {
    absl::StrAppendFormat(&text, "\n    line at %u keeps", line.number * pmem::kLineBytes);
    for (uint16_t choice = line.first_choice; choice < line.end_choice; ++choice) {
      absl::StrAppend(&text, " ", picks[choice], "/", limits_[choice]);
    }
  }
  return text;
}

std::string ImageSet::Explain(const Picks& picks, std::span<const std::byte> durable,
                              NameOfPlace name) const {
  std::string text;
  size_t whole = 0;
  for (const Line& line : lines_) {
    const bool all = std::equal(picks.begin() + line.first_choice, picks.begin() + line.end_choice,
                                limits_.begin() + line.first_choice);
    if (all) {
      ++whole;
      continue;
    }
    const uint64_t offset = line.number * pmem::kLineBytes;
    absl::StrAppend(&text, "    line at ", offset, ", ", name(offset), ":\n");
    std::map<uint32_t, std::pair<uint64_t, uint64_t>> words;  // last stored, current
    for (const Survivor& survivor : survivors_) {
      if (survivor.word / kWords != line.number) continue;
      const auto at = words.try_emplace(survivor.word, 0, LoadWord(durable, survivor.word)).first;
      at->second.first = survivor.value;
      if (picks[survivor.choice] > survivor.rank) at->second.second = survivor.value;
    }
    for (const auto& [word, values] : words) {
      absl::StrAppendFormat(&text, "      + %2u: durable %016x, stored %016x, there is %016x%s\n",
                            word % kWords * CrashTracer::kWordBytes, LoadWord(durable, word),
                            values.first, values.second,
                            values.first == values.second ? "" : "  LOST");
    }
  }
  return absl::StrCat(text, "    ", whole, text.empty() ? "" : " other",
                      " lines keep all that was stored\n");
}

KeptOfLines ImageSet::ByLine(const Picks& picks) const {
  KeptOfLines kept;
  for (const Line& line : lines_) {
    kept[line.number] = {picks.begin() + line.first_choice, picks.begin() + line.end_choice};
  }
  return kept;
}

ImageSet::Picks ImageSet::FromLines(const KeptOfLines& kept) const {
  Picks picks = All(true);
  for (const Line& line : lines_) {
    const auto of_line = kept.find(line.number);
    const size_t choices = line.end_choice - line.first_choice;
    if (of_line == kept.end() || of_line->second.size() != choices) continue;
    for (size_t i = 0; i < choices; ++i) {
      uint16_t& pick = picks[line.first_choice + i];
      pick = std::min(pick, of_line->second[i]);
    }
  }
  return picks;
}

}  // namespace lodgekv::test
