#include "bench/server_bench/request_source.h"

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server_bench {
namespace {

// Of the first digit of keys, which are hexadecimal and uniform: three in sixteen are behind.
constexpr char kScanStartsBelow = 'd';

std::string GetOf(const Record& record) {
  v1::GetRequest request;
  request.set_key(record.key);
  return request.SerializeAsString();
}

std::string PutOf(const Record& record) {
  v1::PutRequest request;
  request.set_key(record.key);
  request.set_value(record.value);
  return request.SerializeAsString();
}

std::string BatchGetOf(const std::vector<Record>& records) {
  v1::BatchGetRequest request;
  for (const Record& record : records) request.add_keys(record.key);
  return request.SerializeAsString();
}

void SetPut(const Record& record, v1::Operation& operation) {
  operation.set_kind(v1::OPERATION_KIND_PUT);
  operation.set_key(record.key);
  operation.set_value(record.value);
}

std::string BatchWriteOf(const std::vector<Record>& records) {
  v1::BatchWriteRequest request;
  for (const Record& record : records) SetPut(record, *request.add_operations());
  return request.SerializeAsString();
}

std::string SessionPutOf(const std::vector<Record>& records) {
  v1::SessionRequest request;
  for (const Record& record : records) SetPut(record, *request.add_operations());
  return request.SerializeAsString();
}

std::string SessionGetOf(const std::vector<Record>& records) {
  v1::SessionRequest request;
  for (const Record& record : records) {
    v1::Operation& operation = *request.add_operations();
    operation.set_kind(v1::OPERATION_KIND_GET);
    operation.set_key(record.key);
  }
  return request.SerializeAsString();
}

std::string ScanOf(const Record& record, size_t items) {
  v1::ScanRequest request;
  request.set_start(record.key);
  request.set_limit(items);
  request.set_page_items(static_cast<uint32_t>(items));
  return request.SerializeAsString();
}

}  // namespace

std::string_view RequestSource::PathOf(CallKind kind) {
  switch (kind) {
    case CallKind::kGet: return "/lodgekv.v1.KvService/Get";
    case CallKind::kPut: return "/lodgekv.v1.KvService/Put";
    case CallKind::kBatchGet: return "/lodgekv.v1.KvService/BatchGet";
    case CallKind::kBatchWrite: return "/lodgekv.v1.KvService/BatchWrite";
    case CallKind::kSessionGet:
    case CallKind::kSessionPut: return "/lodgekv.v1.KvService/Session";
    case CallKind::kScan:
    case CallKind::kScanAll: break;
  }
  return "/lodgekv.v1.KvService/Scan";
}

void RequestSource::Draw(uint64_t first, uint64_t part) {
  for (size_t i = 0; i < records_.size(); ++i) {
    source_.NextBelow(first + i * part, part);
    records_[i].key = source_.key();
    records_[i].value = source_.value();
  }
}

void RequestSource::DrawScanStart() {
  do {
    source_.Next();
  } while (source_.key().front() >= kScanStartsBelow);
  records_.front().key = source_.key();
}

const std::vector<Record>& RequestSource::NextRecords() {
  if (kind_ == CallKind::kScan) {
    DrawScanStart();
  } else {
    Draw(0, key_space_ / records_.size());
  }
  return records_;
}

std::string RequestSource::NextFrom(uint64_t first) {
  Draw(first, 1);
  return OnWire(records_);
}

std::string RequestSource::OnWire(const std::vector<Record>& records) const {
  switch (kind_) {
    case CallKind::kGet: return GetOf(records.front());
    case CallKind::kPut: return PutOf(records.front());
    case CallKind::kBatchGet: return BatchGetOf(records);
    case CallKind::kBatchWrite: return BatchWriteOf(records);
    case CallKind::kScan: return ScanOf(records.front(), records.size());
    case CallKind::kSessionGet: return SessionGetOf(records);
    case CallKind::kSessionPut: return SessionPutOf(records);
    case CallKind::kScanAll: break;
  }
  return {};  // a request with no bounds
}

}  // namespace lodgekv::server_bench
