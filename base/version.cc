#include "base/version.h"

#include "absl/strings/str_cat.h"

namespace lodgekv {
namespace {

constexpr char kCommit[] =
#include "lodgekv_commit.inc"  // made by cmake/write_commit.cmake
    ;

}  // namespace

const char* const kVersion = LODGEKV_VERSION;

std::string DescribeBuild() {
#ifdef __clang__
  constexpr char kCompiler[] = "Clang " __clang_version__;
#else
  constexpr char kCompiler[] = "GCC " __VERSION__;
#endif
  return absl::StrCat(kVersion, " (commit ", kCommit, ", ", LODGEKV_BUILD, ", ", kCompiler, ")");
}

}  // namespace lodgekv
