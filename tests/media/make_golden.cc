// Makes the golden files of tests/media. Built with the tests, run manually
// (tests/media/README.md):
//
//   make_golden layouts FILE
//   make_golden pools FOLDER     existing pools are not changed
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/media/golden_set.h"
#include "tests/media/gzip_file.h"
#include "tests/media/layouts.h"

namespace lodgekv::test {
namespace {

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

absl::Status WriteWhole(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  return file.good() ? absl::OkStatus()
                     : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// Writes NAME.killed.gz (as a killed process leaves the pool), NAME.closed.gz and NAME.tsv.gz.
absl::Status MakePool(const GoldenPool& golden, const std::string& work, const std::string& out) {
  auto store = Store::Open(GoldenOptions(golden, work));
  if (!store.ok()) return store.status();
  Engine& engine = (*store)->engine();
  if (absl::Status status = WriteGoldenHistory(golden, engine); !status.ok()) return status;
  auto dump = DumpEngine(engine);
  if (!dump.ok()) return dump.status();
  if (ParseDump(*dump) != GoldenContent(golden)) {
    return absl::InternalError("the engine does not hold what was written");
  }
  absl::Status status = WriteGzip(absl::StrCat(out, ".killed.gz"), ReadWhole(work));
  if (status.ok()) status = (*store)->Close();
  if (status.ok()) status = WriteGzip(absl::StrCat(out, ".closed.gz"), ReadWhole(work));
  if (status.ok()) status = WriteGzip(absl::StrCat(out, ".tsv.gz"), *dump);
  return status;
}

absl::Status MakePools(const std::string& folder) {
  for (const GoldenPool& golden : GoldenPools()) {
    const std::string out = absl::StrCat(folder, "/", golden.name);
    if (std::filesystem::exists(absl::StrCat(out, ".tsv.gz"))) {
      std::cout << out << ": is there, left alone\n";
      continue;
    }
    const std::string work = absl::StrCat(out, ".", getpid(), ".pool");
    const absl::Status status = MakePool(golden, work, out);
    std::filesystem::remove(work);
    if (!status.ok()) return status;
    std::cout << out << ": made\n";
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "layouts" && what != "pools") {
    std::cerr << "usage: make_golden layouts FILE | make_golden pools FOLDER\n";
    return 2;
  }
  const absl::Status status =
      what == "layouts" ? WriteWhole(argv[2], Layouts()) : MakePools(argv[2]);
  if (!status.ok()) std::cerr << "make_golden: " << status << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace lodgekv::test

int main(int argc, char** argv) { return lodgekv::test::Main(argc, argv); }
