#include "index/pmem/pool_path.h"

#include <libpmem.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lodgekv::pmem {
namespace {

constexpr std::string_view kPoolsetMark = "PMEMPOOLSET";
constexpr size_t kHeaderPage = 4096;

std::string SysfsOfDevice(const struct stat& st) {
  return absl::StrCat("/sys/dev/char/", major(st.st_rdev), ":", minor(st.st_rdev));
}

bool IsDevdax(const struct stat& st) {
  std::error_code error;
  const auto subsystem = std::filesystem::canonical(SysfsOfDevice(st) + "/subsystem", error);
  return !error && subsystem.filename() == "dax";
}

absl::StatusOr<PoolPath::Part> InspectPart(const std::string& path) {
  PoolPath::Part part;
  part.path = path;
  struct stat st;
  if (stat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return part;
    return ErrnoStatus(errno, absl::StrCat("cannot look at pool ", path));
  }
  if (S_ISREG(st.st_mode)) {
    part.kind = PoolPath::Kind::kFile;
    part.bytes = static_cast<uint64_t>(st.st_size);
    return part;
  }
  if (S_ISCHR(st.st_mode) && IsDevdax(st)) {
    part.kind = PoolPath::Kind::kDevdax;
    std::ifstream size(SysfsOfDevice(st) + "/size");
    if (size >> part.bytes) return part;
    return absl::FailedPreconditionError(
        absl::StrCat("cannot learn the size of device ", path, " from ", SysfsOfDevice(st)));
  }
  const char* found = S_ISDIR(st.st_mode) ? "a directory"
                      : S_ISBLK(st.st_mode)
                          ? "a block device (use a file on it, mounted with -o dax, "
                            "or a devdax device)"
                          : "neither a file nor a devdax device";
  return absl::InvalidArgumentError(absl::StrCat(
      "pool ", path, " is ", found, "; a pool is a file, a poolset file or /dev/daxX.Y"));
}

// "8G", "100M", "4096", "1GiB"; "AUTO" is the whole device.
bool ParseSize(std::string_view text, uint64_t* bytes) {
  *bytes = 0;
  if (text == "AUTO") return true;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto parsed = std::from_chars(text.data(), text.data() + digits, *bytes);
  if (digits == 0 || parsed.ec != std::errc()) return false;
  const std::string_view unit = text.substr(digits);
  if (unit.empty() || unit == "B") return true;
  const size_t power = std::string_view("KMGTP").find(unit[0]);
  if (power == std::string_view::npos) return false;
  const std::string_view rest = unit.substr(1);
  if (rest.empty() || rest == "iB") {
    *bytes <<= 10 * (power + 1);
  } else if (rest == "B") {
    for (size_t i = 0; i <= power; ++i) *bytes *= 1000;
  } else {
    return false;
  }
  return true;
}

absl::Status AddPoolsetLine(PoolPath& pool, const std::string& line) {
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.empty() || words[0][0] == '#' || words[0] == "OPTION") return absl::OkStatus();
  if (words[0] == "REPLICA") {
    return absl::InvalidArgumentError(
        absl::StrCat("poolset ", pool.path,
                     " has a REPLICA: LodgeKV writes to the first copy only, so the "
                     "replica would not be one; remove that section"));
  }
  uint64_t bytes = 0;
  if (words.size() != 2 || !ParseSize(words[0], &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("poolset ", pool.path, " has the line \"", line,
                                                   "\"; it should be SIZE PATH, as in 8G /mnt/a"));
  }
  absl::StatusOr<PoolPath::Part> part = InspectPart(words[1]);
  if (!part.ok()) return part.status();
  part->wanted_bytes = bytes;
  pool.parts.push_back(*std::move(part));
  return absl::OkStatus();
}

absl::Status ReadPoolset(PoolPath& pool) {
  std::ifstream in(pool.path);
  std::string line;
  std::getline(in, line);
  pool.kind = PoolPath::Kind::kPoolset;
  pool.parts.clear();
  while (std::getline(in, line)) {
    if (absl::Status status = AddPoolsetLine(pool, line); !status.ok()) return status;
  }
  if (!pool.parts.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("poolset ", pool.path, " names no part"));
}

absl::StatusOr<bool> DeviceOccupied(const std::string& path) {
  size_t mapped = 0;
  void* base = pmem_map_file(path.c_str(), 0, 0, 0, &mapped, nullptr);
  if (base == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot map device ", path));
  const auto* bytes = static_cast<const char*>(base);
  const bool occupied =
      std::any_of(bytes, bytes + std::min(mapped, kHeaderPage), [](char c) { return c != 0; });
  pmem_unmap(base, mapped);
  return occupied;
}

}  // namespace

absl::StatusOr<PoolPath> PoolPath::Inspect(const std::string& path) {
  PoolPath pool;
  pool.path = path;
  if (path.empty()) return absl::InvalidArgumentError("the path of the pool is empty");
  absl::StatusOr<Part> part = InspectPart(path);
  if (!part.ok()) return part.status();
  pool.kind = part->kind;
  pool.parts.push_back(*part);
  if (pool.kind != Kind::kFile || part->bytes == 0) return pool;
  std::ifstream in(path, std::ios::binary);
  if (!in) return ErrnoStatus(errno, absl::StrCat("cannot read pool ", path));
  std::string mark(kPoolsetMark.size(), '\0');
  in.read(mark.data(), static_cast<std::streamsize>(mark.size()));
  if (mark == kPoolsetMark) {
    if (absl::Status status = ReadPoolset(pool); !status.ok()) return status;
  }
  return pool;
}

uint64_t PoolPath::bytes() const {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes != 0 ? part.bytes : part.wanted_bytes;
  return sum;
}

absl::StatusOr<bool> PoolPath::Occupied() const {
  for (const Part& part : parts) {
    if (part.kind == Kind::kFile && part.bytes != 0) return true;
    if (part.kind != Kind::kDevdax) continue;
    absl::StatusOr<bool> occupied = DeviceOccupied(part.path);
    if (!occupied.ok() || *occupied) return occupied;
  }
  return false;
}

absl::Status ErrnoStatus(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::generic_category().message(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ENOENT:
    case ENOTDIR: return absl::NotFoundError(message);
    case EEXIST: return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
    case ENOMEM: return absl::ResourceExhaustedError(message);
    case EAGAIN:
    case EBUSY: return absl::FailedPreconditionError(message);
    case EINVAL: return absl::InvalidArgumentError(message);
    default: return absl::UnknownError(message);
  }
}

}  // namespace lodgekv::pmem
