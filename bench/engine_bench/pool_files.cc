#include "bench/engine_bench/pool_files.h"

#include <filesystem>
#include <system_error>

namespace lodgekv::bench {

void RemovePoolFiles(const std::string& pool_path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(pool_path, ignored)) return;
  std::filesystem::remove(pool_path, ignored);
  std::filesystem::remove(pool_path + ".journal", ignored);
}

}  // namespace lodgekv::bench
