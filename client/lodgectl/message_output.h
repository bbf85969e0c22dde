// Formats answers of the operator's service: one "name  value" line for each field.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "client/lodgectl/command.h"
#include "google/protobuf/message.h"

namespace lodgekv::lodgectl {

// Names of nested fields are joined by dots; enum values lose the prefix of their type.
std::string FormatFields(const google::protobuf::Message& message);

// JSON as proto3 defines it (64-bit numbers are strings), fields that are 0 included.
std::string FormatJson(const google::protobuf::Message& message);

// One aligned line.
std::string FormatField(absl::string_view name, absl::string_view value);

// Writes to stdout; returns the exit code.
int PrintOutput(absl::string_view command, absl::string_view text);

}  // namespace lodgekv::lodgectl
