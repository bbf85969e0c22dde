// Runs a fuzz target without libFuzzer, with any compiler: over its corpus, and over deterministic
// inputs derived from it.
//
//   fuzz_TARGET [-runs=N] [-seed=S] [-max_len=N] [-artifact_prefix=P] FILE_OR_FOLDER...
//
// The options are libFuzzer's, so that one script runs both. -runs counts all executions; 0 or
// absent: the files only. An input that ends the process is saved at P, as crash- and its number.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace {

using Input = std::vector<uint8_t>;

// Bytes that parsers look for, and integers at the limits of their ranges.
constexpr std::string_view kTelling{"\\tnrx\t\n\r\"{}[]:,-# 09af=/\0\x7f\x80\xff", 29};

// What the handler writes: set before each execution.
std::string artifact_path;
const Input* current = nullptr;

void KeepInput(int number) {
  std::FILE* file = std::fopen(artifact_path.c_str(), "wb");
  if (file != nullptr) {
    std::fwrite(current->data(), 1, current->size(), file);
    std::fclose(file);
    std::fprintf(stderr, "Test unit written to %s\n", artifact_path.c_str());
  }
  signal(number, SIG_DFL);
  raise(number);
}

struct Arguments {
  uint64_t runs = 0;
  uint64_t seed = 1;
  uint64_t max_len = 4096;
  std::string artifact_prefix = "./";
  std::vector<std::string> paths;
};

bool TakeNumber(std::string_view argument, std::string_view name, uint64_t* number) {
  if (argument.substr(0, name.size()) != name) return false;
  const char* end = argument.data() + argument.size();
  return std::from_chars(argument.data() + name.size(), end, *number).ptr == end;
}

// False: an unknown argument.
bool Parse(int argc, char** argv, Arguments* arguments) {
  constexpr std::string_view kPrefix = "-artifact_prefix=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kPrefix.size()) == kPrefix) {
      arguments->artifact_prefix = argument.substr(kPrefix.size());
    } else if (argument.substr(0, 1) != "-") {
      arguments->paths.emplace_back(argument);
    } else if (!TakeNumber(argument, "-runs=", &arguments->runs) &&
               !TakeNumber(argument, "-seed=", &arguments->seed) &&
               !TakeNumber(argument, "-max_len=", &arguments->max_len)) {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return false;
    }
  }
  return true;
}

std::vector<Input> ReadCorpus(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files.push_back(entry.path());
    }
  }
  // Directory order is arbitrary.
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  Mutator(const std::vector<Input>& corpus, uint64_t seed, size_t max_len)
      : corpus_(corpus), max_len_(max_len), random_(seed) {}

  Input Make() {
    Input input = corpus_.empty() ? Input{} : corpus_[Below(corpus_.size())];
    for (uint64_t steps = 1 + Below(4); steps > 0; --steps) Change(input);
    if (input.size() > max_len_) input.resize(max_len_);
    return input;
  }

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  uint8_t AnyByte() {
    if (Below(2) == 0) return static_cast<uint8_t>(random_());
    return static_cast<uint8_t>(kTelling[Below(kTelling.size())]);
  }
  ptrdiff_t Place(size_t bound) { return static_cast<ptrdiff_t>(Below(bound)); }

  void Change(Input& input) {
    const uint64_t kind = input.empty() ? 0 : Below(6);
    switch (kind) {
      case 0: input.insert(input.begin() + Place(input.size() + 1), AnyByte()); break;
      case 1: input[Below(input.size())] = AnyByte(); break;
      case 2: input[Below(input.size())] ^= static_cast<uint8_t>(1U << Below(8)); break;
      case 3: input[Below(input.size())] += Below(2) == 0 ? uint8_t{1} : uint8_t{0xff}; break;
      case 4: Erase(input); break;
      default: Splice(input); break;
    }
  }
  void Erase(Input& input) {
    const ptrdiff_t begin = Place(input.size());
    const ptrdiff_t left = static_cast<ptrdiff_t>(input.size()) - begin;
    input.erase(input.begin() + begin,
                input.begin() + begin + std::min<ptrdiff_t>(left, 1 + Place(8)));
  }
  // Copies a piece of another input, over or between the existing bytes.
  void Splice(Input& input) {
    const Input& other = corpus_[Below(corpus_.size())];
    if (other.empty()) return;
    const ptrdiff_t from = Place(other.size());
    const ptrdiff_t left = static_cast<ptrdiff_t>(other.size()) - from;
    const Input piece(other.begin() + from,
                      other.begin() + from + std::min<ptrdiff_t>(left, 1 + Place(16)));
    const ptrdiff_t to = Place(input.size());
    if (Below(2) == 0) {
      const auto over = std::min(piece.size(), input.size() - static_cast<size_t>(to));
      input.erase(input.begin() + to, input.begin() + to + static_cast<ptrdiff_t>(over));
    }
    input.insert(input.begin() + to, piece.begin(), piece.end());
  }

  const std::vector<Input>& corpus_;
  const size_t max_len_;
  std::mt19937_64 random_;
};

void Execute(const Input& input) {
  current = &input;
  // An exactly sized block: a sanitizer then detects reads beyond its end.
  const Input copy(input);
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) return 2;
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, KeepInput);
  const std::vector<Input> corpus = ReadCorpus(arguments.paths);
  uint64_t done = 0;
  const auto name_artifact = [&] {
    artifact_path = arguments.artifact_prefix + "crash-" + std::to_string(done);
  };
  for (; done < corpus.size(); ++done) {
    name_artifact();
    Execute(corpus[done]);
  }
  for (Mutator mutator(corpus, arguments.seed, arguments.max_len); done < arguments.runs; ++done) {
    name_artifact();
    Execute(mutator.Make());
  }
  std::printf("Done %lu runs\n", static_cast<unsigned long>(done));
  return 0;
}
