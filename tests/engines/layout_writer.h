// Layouts as text: "struct NAME BYTES", then "field NAME OFFSET BYTES" for each of its fields.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/pmem/medium.h"

namespace lodgekv::test {

class LayoutWriter {
 public:
  void Struct(const char* name, size_t bytes) {
    absl::StrAppend(&text_, "struct ", name, " ", bytes, "\n");
  }
  void Field(const char* name, size_t offset, size_t bytes) {
    absl::StrAppend(&text_, "field ", name, " ", offset, " ", bytes, "\n");
  }
  // In an area of words.
  void Words(const char* name, size_t first, size_t count = 1) {
    Field(name, first * sizeof(pmem::Word), count * sizeof(pmem::Word));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

#define LODGEKV_FIELD(type, field) writer.Field(#field, offsetof(type, field), sizeof(type::field))

}  // namespace lodgekv::test
