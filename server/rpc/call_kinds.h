// The kinds of calls by how they reach the engine: in a group, as a batch, or page by page.
#pragma once

#include <cstdint>
#include <string_view>

#include "index/engine.h"
#include "server/rpc/call.h"
#include "server/rpc/scan_pager.h"

namespace lodgekv::server {

// A single Get, which is grouped with others.
class ReadCall : public Call {
 public:
  using Call::Call;
  virtual std::string_view key() const = 0;
  // May move the value out of the result.
  virtual void AnswerRead(ReadResult& result) = 0;
};

// A single Put or Delete, which is grouped with others.
class WriteCall : public Call {
 public:
  using Call::Call;
  const WriteOp& op() const { return op_; }
  virtual void AnswerApplied(const WriteResult& result) = 0;

 protected:
  WriteOp op_;
};

// A batch, which goes to the engine by itself. Parsing may take as long as many single calls, so a
// batch is queued unparsed, and once it is parsed it is queued for the engine.
class BatchCall : public Call {
 public:
  using Call::Call;
  virtual uint64_t UnparsedBytes() const = 0;
  // Parses and checks the request, then answers with an error or enqueues the call.
  virtual void Parse() = 0;
  virtual void Serve(Engine& engine) = 0;
};

// A stream of pages.
class PageCall : public Call {
 public:
  using Call::Call;
  virtual bool IsFirstPage() const = 0;
  // Reads and sends the next page. False: the admission has no room for a page, so the call must be
  // queued again; never if the server stops.
  virtual bool ServePage(Engine& engine, PageMessage& message, bool stopping) = 0;
};

}  // namespace lodgekv::server
