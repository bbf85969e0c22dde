// Traces an image that is only checked: records what recovery writes, so that the image can be
// restored, and answers requests for canaries.
#pragma once

#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/crash/lab/tracer.h"
#include "tests/support/arena_memory.h"

namespace lodgekv::test {

class ImageTracer final : public pmem::Tracer {
 public:
  ImageTracer(const ArenaMemory& image, Fault fault) : image_(image.span()), fault_(fault) {}
  void OnStore(const void* dst, size_t bytes, bool) override {
    written_.emplace_back(static_cast<const std::byte*>(dst) - image_.data(), bytes);
  }
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view name) override {
    if (last_ != name.data()) points.emplace(last_ = name.data());
  }
  bool OnCanary(std::string_view name) override {
    const bool asked = fault_.kind == Fault::Kind::kAsk && name == fault_.where;
    happened |= asked;
    return asked;
  }

  std::set<std::string, std::less<>> points;
  bool happened = false;

  void Undo(std::span<const std::byte> durable) const {
    for (const auto& [offset, bytes] : written_) {
      std::memcpy(image_.data() + offset, durable.data() + offset, bytes);
    }
  }

 private:
  const std::span<std::byte> image_;
  const Fault fault_;
  std::vector<std::pair<size_t, size_t>> written_;
  const char* last_ = nullptr;
};

}  // namespace lodgekv::test
