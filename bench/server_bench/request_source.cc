#include "bench/server_bench/request_source.h"

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server_bench {
namespace {

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

std::string BatchWriteOf(const std::vector<Record>& records) {
  v1::BatchWriteRequest request;
  for (const Record& record : records) {
    v1::Operation& operation = *request.add_operations();
    operation.set_kind(v1::OPERATION_KIND_PUT);
    operation.set_key(record.key);
    operation.set_value(record.value);
  }
  return request.SerializeAsString();
}

}  // namespace

std::string_view RequestSource::PathOf(CallKind kind) {
  switch (kind) {
    case CallKind::kGet: return "/lodgekv.v1.KvService/Get";
    case CallKind::kPut: return "/lodgekv.v1.KvService/Put";
    case CallKind::kBatchGet: return "/lodgekv.v1.KvService/BatchGet";
    case CallKind::kBatchWrite: break;
  }
  return "/lodgekv.v1.KvService/BatchWrite";
}

void RequestSource::Draw(uint64_t first, uint64_t part) {
  for (size_t i = 0; i < records_.size(); ++i) {
    source_.NextBelow(first + i * part, part);
    records_[i].key = source_.key();
    records_[i].value = source_.value();
  }
}

const std::vector<Record>& RequestSource::NextRecords() {
  Draw(0, key_space_ / records_.size());
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
    case CallKind::kBatchWrite: break;
  }
  return BatchWriteOf(records);
}

}  // namespace lodgekv::server_bench
