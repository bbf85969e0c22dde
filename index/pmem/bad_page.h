// A mapped page that cannot be read or written, because the medium reports an error there or the
// file was cut short, ends the process by SIGBUS. Watched, it ends with a message that names the
// place: on stderr, since nothing else can be done at that moment.
#pragma once

#include <cstdint>
#include <string_view>

namespace lodgekv::pmem {

// From here until Forget(base), of at most 16 mappings at a time; more are not watched. Faults
// elsewhere are left to whoever cared for them before.
void WatchPages(const char* base, uint64_t bytes, std::string_view path);
void ForgetPages(const char* base);

}  // namespace lodgekv::pmem
