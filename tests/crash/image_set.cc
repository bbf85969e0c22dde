#include "tests/crash/image_set.h"

#include <algorithm>
#include <array>
#include <cstring>

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

// A store that changes nothing is no choice. That can be told where the stores before it survive
// whenever it does.
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

}  // namespace lodgekv::test
