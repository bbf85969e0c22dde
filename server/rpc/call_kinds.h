// The kinds of calls by how they reach the engine: together with others of their kind, by
// themselves, or page by page.
#pragma once

#include <cstdint>
#include <string_view>

#include "index/engine.h"
#include "server/rpc/call.h"
#include "server/rpc/scan_pager.h"

namespace lodgekv::server {

// A single Get, which shares the engine's group with others.
class ReadCall : public Call {
 public:
  using Call::Call;
  virtual std::string_view key() const = 0;
  // Takes the value out of the result.
  virtual void AnswerRead(ReadResult& result) = 0;
};

// A single Put or Delete, which shares the engine's group with others.
class WriteCall : public Call {
 public:
  using Call::Call;
  const WriteOp& op() const { return op_; }
  virtual void AnswerApplied(const WriteResult& result) = 0;

 protected:
  WriteOp op_;
};

// A batch, which goes to the engine by itself. To take it apart may take as long as many single
// calls, so that it waits for a turn to be opened, as it came, and for another to be served.
class BatchCall : public Call {
 public:
  using Call::Call;
  virtual uint64_t UnopenedBytes() const = 0;
  // Checks the request, then answers with the error or enqueues the call.
  virtual void Open() = 0;
  virtual void Serve(Engine& engine) = 0;
};

// A stream of pages.
class PageCall : public Call {
 public:
  using Call::Call;
  virtual bool IsFirstPage() const = 0;
  // When its turn has come. False: there is no room for a page, so that it waits for another turn;
  // never so when the server stops.
  virtual bool ServePage(Engine& engine, PageMessage& message, bool stopping) = 0;
};

}  // namespace lodgekv::server
