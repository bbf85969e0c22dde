// Scans and their continuation tokens: whatever token is passed, pages are in order, within range
// and limits, and a continued scan returns the same pages as one that was not interrupted.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "index/engine_info.h"
#include "server/rpc/scan_pager.h"
#include "server/testing/parse_page.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv::dram {
const EngineInfo& GetEngineInfo();
}

namespace lodgekv::server {
namespace {

using Keys = std::vector<std::string>;

constexpr size_t kMostPages = 64;

Keys KeysOf(KeyFormat format) {
  if (format == KeyFormat::kFixed64) {
    return {"aaaaaaaa", "abababab", "abacabac",
            "bbbbbbbb", "bbbbbbbc", "\xff\xff\xff\xff\xff\xff\xff\xff"};
  }
  Keys keys = {"a",     "ab",           "abc",          "abd",  "b",       std::string(1, '\0'),
               "b\xff", "longer key 1", "longer key 2", "\xff", "\xff\xff"};
  std::sort(keys.begin(), keys.end());
  return keys;
}

// An engine that holds KeysOf its format; each value equals its key.
struct World {
  explicit World(KeyFormat format) : keys(KeysOf(format)) {
    pool.key_format = format;
    limits.scan_page_items = 5;
    limits.scan_page_size = 64;
    EngineContext context;
    context.key_format = format;
    auto created = dram::GetEngineInfo().create(context);
    FUZZ_REQUIRE(created.ok(), "dram");
    engine = *std::move(created);
    for (const std::string& key : keys) {
      const WriteOp op{.key = key, .value = key};
      WriteResult result;
      FUZZ_REQUIRE(engine->Write({&op, 1}, {&result, 1}, {}) == Outcome::kOk, key);
    }
  }

  Keys keys;
  Limits limits;
  PoolFeatures pool;
  std::unique_ptr<Engine> engine;
};

World& WorldOf(KeyFormat format) {
  static auto* bytes = new World(KeyFormat::kBytes);
  static auto* fixed = new World(KeyFormat::kFixed64);
  return format == KeyFormat::kBytes ? *bytes : *fixed;
}

// As kv.proto says, except for the limit.
Keys Expected(const v1::ScanRequest& request, const World& world) {
  Keys keys;
  for (const std::string& key : world.keys) {
    if (key < request.start()) continue;
    if (!request.end().empty() && key >= request.end()) continue;
    if (key.substr(0, request.prefix().size()) != request.prefix()) continue;
    if (!request.continuation().empty()) {
      if (request.reverse() ? key >= request.continuation() : key <= request.continuation()) {
        continue;
      }
    }
    keys.push_back(key);
  }
  if (request.reverse()) std::reverse(keys.begin(), keys.end());
  return keys;
}

// The planted bug: a token holds at most 8 bytes of its key.
std::string TokenOf(const v1::ScanResponse& page) {
  return fuzz::BugIsPlanted() ? page.continuation().substr(0, 8) : page.continuation();
}

void CheckPage(const v1::ScanRequest& request, const World& world, const ScanPager& pager,
               const v1::ScanResponse& page) {
  const auto items = static_cast<uint64_t>(page.items_size());
  uint64_t bytes = 0;
  for (const v1::ScanItem& item : page.items()) {
    bytes += item.key().size() + item.value().size();
    FUZZ_REQUIRE(item.value() == (request.keys_only() ? "" : item.key()), item.key());
  }
  FUZZ_REQUIRE(bytes == pager.page_bytes(), "bytes");
  FUZZ_REQUIRE(items <= world.limits.scan_page_items, "items");
  FUZZ_REQUIRE(items <= 1 || bytes <= world.limits.scan_page_size, "bytes");
  FUZZ_REQUIRE(request.page_items() == 0 || items <= request.page_items(), "page_items");
  FUZZ_REQUIRE(request.page_bytes() == 0 || items <= 1 || bytes <= request.page_bytes(),
               "page_bytes");
  if (page.continuation().empty()) {
    FUZZ_REQUIRE(pager.done(), "a page without continuation that is not the last");
  } else {
    FUZZ_REQUIRE(items > 0 && page.continuation() == page.items(page.items_size() - 1).key(),
                 "continuation");
  }
}

bool Start(const v1::ScanRequest& request, const World& world, ScanPager* pager) {
  const auto error =
      pager->Start(request, {.limits = world.limits, .pool = world.pool, .now_unix_ms = 0});
  if (!error) return true;
  FUZZ_REQUIRE(error->error_code() == grpc::StatusCode::INVALID_ARGUMENT, error->error_message());
  FUZZ_REQUIRE(fuzz::IsOnePrintableLine(error->error_message()), error->error_message());
  return false;
}

// The keys of all pages; with `anew` each page is a separate call with the token of the last.
Keys ReadAll(v1::ScanRequest request, World& world, bool anew) {
  Keys keys;
  auto pager = std::make_unique<ScanPager>();
  FUZZ_REQUIRE(Start(request, world, pager.get()), "a token of our own is refused");
  for (size_t pages = 0; !pager->done(); ++pages) {
    FUZZ_REQUIRE(pages < kMostPages, "a scan without end");
    const std::optional<v1::ScanResponse> read = testing::NextPage(*pager, *world.engine);
    FUZZ_REQUIRE(read.has_value(), "page");
    const v1::ScanResponse& page = *read;
    CheckPage(request, world, *pager, page);
    for (const v1::ScanItem& item : page.items()) keys.push_back(item.key());
    if (!anew || pager->done()) continue;
    request.set_continuation(TokenOf(page));
    if (request.limit() != 0) {
      request.set_limit(request.limit() - static_cast<uint64_t>(page.items_size()));
    }
    pager = std::make_unique<ScanPager>();
    FUZZ_REQUIRE(Start(request, world, pager.get()), "a token of our own is refused");
  }
  return keys;
}

void CheckScan(const v1::ScanRequest& request, World& world) {
  ScanPager pager;
  if (!Start(request, world, &pager)) return;
  Keys expected = Expected(request, world);
  if (request.limit() != 0 && expected.size() > request.limit()) expected.resize(request.limit());
  FUZZ_REQUIRE(ReadAll(request, world, false) == expected, request.ShortDebugString());
  FUZZ_REQUIRE(ReadAll(request, world, true) == expected, request.ShortDebugString());
}

}  // namespace
}  // namespace lodgekv::server

// The first byte: bit 0 the key format; the rest a ScanRequest.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lodgekv;
  fuzz::InputReader input(data, size);
  const KeyFormat format = (input.Byte() & 1) == 0 ? KeyFormat::kBytes : KeyFormat::kFixed64;
  const std::string_view rest = input.Rest();
  v1::ScanRequest request;
  if (request.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    server::CheckScan(request, server::WorldOf(format));
  }
  return 0;
}
