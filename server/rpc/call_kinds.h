// The kinds of calls by how they reach the engine: in a group, as a batch, or page by page.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "index/engine.h"
#include "server/rpc/call.h"
#include "server/rpc/request_check.h"
#include "server/rpc/scan_pager.h"

namespace lodgekv::server {

// A write of more, or a page or batch that has read more, is left to the threads for what is long.
inline constexpr uint64_t kLongBytes = 64 * kKiB;
// So are batches of more operations. Either takes some 100 us.
inline constexpr size_t kLongBatchOfReads = 256;
inline constexpr size_t kLongBatchOfWrites = 128;

// Keys of a batch that are looked up at a time: enough to interleave their cache misses, few enough
// to stop soon when an answer grows too large.
inline constexpr size_t kKeysPerLookup = 16;
// What a result counts against the limit of an answer.
inline uint64_t AnswerBytes(const ReadResult& result) {
  constexpr uint64_t kBesidesItsValue = 32;
  return kBesidesItsValue + (result.found ? result.value.size() : 0);
}

// A single Get, which is grouped with others. Groups are answered as they are read, but for large
// values, which a thread for what is long reads again.
class ReadCall : public Call {
 public:
  using Call::Call;
  virtual std::string_view key() const = 0;
  // Answers with what was read for the group. May move the value out of the result.
  void AnswerGrouped(ReadResult& result);
  // Reads the value, whatever its length. It is counted at once: values that wait to be delivered
  // must not add up to more than there is room for.
  void ReadAlone(Engine& engine, uint64_t now_unix_ms);

 protected:
  void DeliverResult() final;
  // May move the value out of the result, whose bytes are held.
  virtual void AnswerRead(ReadResult& result) = 0;

 private:
  // If the admission refuses the value: the error to answer with.
  std::optional<grpc::Status> HoldValue(const ReadResult& result);

  ReadResult result_;  // of ReadAlone
};

// A single Put or Delete, which is grouped with others.
class WriteCall : public Call {
 public:
  using Call::Call;
  const WriteOp& op() const { return op_; }
  // Whether the write takes as long as many others: that of a large value.
  virtual bool IsLong() const { return BytesOf(op_) > kLongBytes; }
  // Before op() is used, by the thread that applies it. False: the request is invalid, and the call
  // has failed.
  virtual bool Prepare() { return true; }
  void SetResult(const WriteResult& result) { result_ = result; }

 protected:
  void DeliverResult() final;
  virtual void AnswerApplied() = 0;

  WriteOp op_;
  WriteResult result_;
};

// A batch, which goes to the engine by itself. Parsing may take as long as many single calls, so a
// batch is queued unparsed, and one that is long is left so for the thread that serves it.
class BatchCall : public Call {
 public:
  using Call::Call;
  virtual uint64_t UnparsedBytes() const = 0;
  // Checks what can be checked on the poller's thread, then answers with an error or enqueues the
  // call.
  virtual void Parse() = 0;
  // Whether serving it takes as long as many single calls.
  virtual bool IsLong() const = 0;
  // Before Serve, by the thread that serves it. False: the request is invalid, and the call has
  // failed.
  virtual bool Prepare() = 0;
  // Serves the batch, or goes on with it. False: more than `most_bytes` have been read, or a long
  // value comes next, and the rest is to be served with kAllBytes.
  static constexpr uint64_t kAllBytes = UINT64_MAX;
  virtual bool Serve(Engine& engine, uint64_t now_unix_ms, uint64_t most_bytes) = 0;
};

// A stream of pages.
class PageCall : public Call {
 public:
  using Call::Call;
  virtual bool IsFirstPage() const = 0;
  // Whether the next page takes no longer than a few single calls.
  virtual bool IsShort() const = 0;
  // Reads the next page. False: the admission has no room for a page, so the call must be queued
  // again; never if the server stops.
  virtual bool ReadPage(Engine& engine, uint64_t now_unix_ms, bool stopping) = 0;
};

}  // namespace lodgekv::server
