#include "client/lodgectl/message_output.h"

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lodgekv::lodgectl {
namespace {

using google::protobuf::FieldDescriptor;
using nlohmann::ordered_json;

std::string ToJson(const google::protobuf::Message& message, bool whitespace) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = whitespace;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails only on a Timestamp or Duration out of range; what was written until then is shown.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

// SERVER_STATE_SERVING of the enum ServerState is "serving".
std::string ShortEnumName(const FieldDescriptor& field, const std::string& name) {
  const std::string zero = field.enum_type()->value(0)->name();
  const size_t prefix = zero.rfind("UNSPECIFIED");
  return absl::AsciiStrToLower(prefix == std::string::npos ? name : name.substr(prefix));
}

bool IsMessage(const FieldDescriptor* field) {
  return field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

std::string ScalarText(const FieldDescriptor* field, const ordered_json& value) {
  if (!value.is_string()) return value.dump();
  const std::string text = value.get<std::string>();
  const bool is_enum = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM;
  return is_enum ? ShortEnumName(*field, text) : text;
}

void AppendFields(const ordered_json& object, const google::protobuf::Descriptor& type,
                  const std::string& prefix, std::string& text) {
  for (const auto& [name, value] : object.items()) {
    const FieldDescriptor* field = type.FindFieldByName(name);
    const std::string full_name = prefix + name;
    if (value.is_object() && IsMessage(field)) {
      AppendFields(value, *field->message_type(), full_name + ".", text);
    } else if (value.is_array()) {
      for (const ordered_json& element : value) {
        text += FormatField(full_name, ScalarText(field, element));
      }
    } else {
      text += FormatField(full_name, ScalarText(field, value));
    }
  }
}

}  // namespace

std::string FormatField(absl::string_view name, absl::string_view value) {
  return absl::StrFormat("%-32s %s\n", name, value);
}

std::string FormatFields(const google::protobuf::Message& message) {
  std::string text;
  AppendFields(ordered_json::parse(ToJson(message, false)), *message.GetDescriptor(), "", text);
  return text;
}

std::string FormatJson(const google::protobuf::Message& message) { return ToJson(message, true); }

int PrintOutput(absl::string_view command, absl::string_view text) {
  WriteOutput(text);
  return FinishOutput(command);
}

}  // namespace lodgekv::lodgectl
