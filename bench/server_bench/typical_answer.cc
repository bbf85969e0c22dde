#include "bench/server_bench/typical_answer.h"

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server_bench {
namespace {

// Of the first version, like all below: greater ones take more bytes.
template <class Message>
void SetValue(Message& message) {
  message.set_found(true);
  message.set_value(std::string(kValueBytes, 'v'));
  message.set_version(1);
}

std::string BatchGetAnswer(uint64_t batch) {
  v1::BatchGetResponse answer;
  for (uint64_t i = 0; i < batch; ++i) SetValue(*answer.add_results());
  return answer.SerializeAsString();
}

std::string BatchWriteAnswer(uint64_t batch) {
  v1::BatchWriteResponse answer;
  for (uint64_t i = 0; i < batch; ++i) answer.add_results()->set_version(1);
  return answer.SerializeAsString();
}

std::string SessionAnswer(CallKind kind, uint64_t batch) {
  v1::SessionResponse answer;
  for (uint64_t i = 0; i < batch; ++i) {
    v1::OperationResult& result = *answer.add_results();
    if (kind == CallKind::kSessionGet) {
      SetValue(result);
    } else {
      result.set_version(1);
    }
  }
  return answer.SerializeAsString();
}

std::string ScanAnswer(uint64_t batch) {
  v1::ScanResponse answer;
  for (uint64_t i = 0; i < batch; ++i) {
    v1::ScanItem& item = *answer.add_items();
    item.set_key(std::string(kKeyBytes, 'k'));
    item.set_value(std::string(kValueBytes, 'v'));
    item.set_version(1);
  }
  return answer.SerializeAsString();
}

}  // namespace

std::string TypicalAnswer(CallKind kind, uint64_t batch) {
  v1::GetResponse get;
  v1::PutResponse put;
  switch (kind) {
    case CallKind::kGet: SetValue(get); return get.SerializeAsString();
    case CallKind::kPut: put.set_version(1); return put.SerializeAsString();
    case CallKind::kBatchGet: return BatchGetAnswer(batch);
    case CallKind::kBatchWrite: return BatchWriteAnswer(batch);
    case CallKind::kSessionGet:
    case CallKind::kSessionPut: return SessionAnswer(kind, batch);
    case CallKind::kScan: break;
    case CallKind::kScanAll: return {};
  }
  return ScanAnswer(batch);
}

}  // namespace lodgekv::server_bench
