// A pool of a benchmark's own on a file, and its journal, which a killed process leaves behind.
#pragma once

#include <string>

namespace lodgekv::bench {

// Removes a regular file and the journal beside it; anything else at that path stays.
void RemovePoolFiles(const std::string& pool_path);

}  // namespace lodgekv::bench
