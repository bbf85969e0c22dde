// Sizes and offsets of all structs on a medium, as text: one line per struct or field.
#pragma once

#include <string>

namespace lodgekv::test {

// "struct NAME BYTES", then "field NAME OFFSET BYTES" for each of its fields.
std::string Layouts();

}  // namespace lodgekv::test
