#include "tests/media/gzip_file.h"

#include <zlib.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace lodgekv::test {

absl::StatusOr<std::string> ReadGzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::string content;
  std::vector<char> buffer(size_t{1} << 20);
  int bytes;
  while ((bytes = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    content.append(buffer.data(), static_cast<size_t>(bytes));
  }
  const int closed = gzclose(file);
  if (bytes == 0 && closed == Z_OK) return content;
  return absl::DataLossError(absl::StrCat(path, " is no whole gzip file"));
}

absl::Status WriteGzip(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb9");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot create ", path));
  const bool written = gzwrite(file, content.data(), static_cast<unsigned>(content.size())) ==
                       static_cast<int>(content.size());
  if (gzclose(file) == Z_OK && written) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("cannot write all of ", path));
}

}  // namespace lodgekv::test
