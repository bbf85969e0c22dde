#include "bench/engine_bench/persist_target.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "bench/engine_bench/environment.h"

namespace lodgekv::bench {
namespace {

constexpr size_t kAreaBytes = size_t{4} << 20;
constexpr size_t kLines = kAreaBytes / pmem::kLineBytes;

absl::Status Failed(const std::string& what) {
  return absl::InternalError(absl::StrCat("baseline persist: ", what, ": ", strerror(errno)));
}

pmem::Medium::Options FlushOptions() {
  pmem::Medium::Options options;
  options.mode = ProcessorHasFlag("clwb") ? pmem::FlushMode::kClwb : pmem::FlushMode::kClflushopt;
  return options;
}

class PersistOps {
 public:
  PersistOps(pmem::Medium& medium, void* area, size_t* next_line)
      : medium_(medium), area_(static_cast<char*>(area)), next_line_(next_line) {}

  void Put(size_t i) {
    auto* word = reinterpret_cast<pmem::Word*>(area_ + *next_line_ * pmem::kLineBytes);
    *next_line_ = (*next_line_ + 1) % kLines;
    medium_.Store(*word, i);
    medium_.Persist(word, sizeof(*word));
  }
  void Read(size_t) {}
  void ReadChained(size_t) {}
  void Delete(size_t) {}
  void Scan(size_t) {}

 private:
  pmem::Medium& medium_;
  char* const area_;
  size_t* const next_line_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PersistTarget>> PersistTarget::Create(const std::string& directory) {
  std::string path = absl::StrCat(directory, "/engine_bench.XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return Failed(absl::StrCat("cannot make a file in ", directory));
  unlink(path.c_str());
  void* area = MAP_FAILED;
  if (ftruncate(fd, kAreaBytes) == 0) {
    area = mmap(nullptr, kAreaBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  absl::Status failed = area == MAP_FAILED ? Failed("cannot map its file") : absl::OkStatus();
  close(fd);
  if (!failed.ok()) return failed;
  std::memset(area, 0, kAreaBytes);
  return std::unique_ptr<PersistTarget>(new PersistTarget(area));
}

PersistTarget::PersistTarget(void* area)
    : id_{.engine = "persist",
          .engine_options = "",
          .key_format = "fixed64",
          .key_shape = "integer"},
      key_writer_(KeyFormat::kFixed64, KeyShape::kRandom16, 0, 1),
      medium_(FlushOptions()),
      area_(area) {}

PersistTarget::~PersistTarget() { munmap(area_, kAreaBytes); }

Tally PersistTarget::Run(const OpBatch& batch, LatencyProbe* probe) {
  PersistOps ops(medium_, area_, &next_line_);
  NoProbe none;
  if (probe == nullptr) {
    RunBatch(ops, batch, none);
  } else {
    RunBatch(ops, batch, *probe);
  }
  return {};
}

}  // namespace lodgekv::bench
