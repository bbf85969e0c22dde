// One scan, page by page: each page is one Scan of the engine that starts at the key where the last
// one ended, so that only that key is kept between pages.
//
// INVARIANT  A page holds at most the requested items and bytes of keys and values, except a single
//            item that is larger by itself. Its continuation is empty when the range is finished,
//            else its last key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "index/engine.h"
#include "lodgekv/v1/kv.pb.h"
#include "server/base/limits.h"
#include "server/rpc/page_writer.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {

// The first key after all keys that begin with `prefix`; empty if there is none.
std::string PrefixEnd(std::string_view prefix);

class ScanPager {
 public:
  // Nothing if the request is valid, else the error to answer with.
  std::optional<grpc::Status> Start(const v1::ScanRequest& request, const CheckContext& context);

  // Adds the next page to `page`, which is empty, with at most `most_bytes`, too.
  Outcome NextPage(Engine& engine, uint64_t now_unix_ms, uint64_t most_bytes, PageWriter& page);

  // The last page of this stream has been made.
  bool done() const { return done_; }
  // The most items that the next page may have.
  uint64_t NextItems() const { return limited_ ? std::min(max_items_, remaining_) : max_items_; }
  // The most bytes of keys and values that a page may have.
  uint64_t MostBytes(const Limits& limits) const;
  // The bytes of keys and values of the last page.
  uint64_t page_bytes() const { return used_bytes_; }

 private:
  // Adds an item, or ends the page: false.
  bool Visit(const ScanItem& item, uint64_t most_bytes, PageWriter& page);
  ScanOptions Options(uint64_t now_unix_ms) const;

  std::string start_;
  std::string end_;     // empty: none
  std::string resume_;  // the last key sent; empty: none
  bool reverse_ = false;
  bool keys_only_ = false;
  bool limited_ = false;
  uint64_t remaining_ = 0;  // items, when limited_
  uint64_t max_items_ = 0;  // of a page
  uint64_t max_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  bool more_ = false;  // there is an item after the page
  bool done_ = false;
};

}  // namespace lodgekv::server
