#include "softhca/model/json_fields.h"

#include <algorithm>
#include <sstream>

namespace softhca {

namespace {

gdr::Status rejected(const std::string& path, const std::string& accepted) {
  return gdr::fail(gdr::Code::kInvalidUsage, "field \"" + path + "\": accepted is " + accepted);
}

bool is_hex64(const std::string& text) {
  std::string digits = text.starts_with("0x") ? text.substr(2) : text;
  return !digits.empty() && digits.size() <= 16 &&
         digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

std::string text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (!object.is_object()) note(rejected(path_.empty() ? "(whole)" : path_, "an object"));
}

const Json* JsonFields::find(const char* name) {
  known_.insert(name);
  if (!object_.is_object()) return nullptr;
  auto it = object_.find(name);
  return it == object_.end() ? nullptr : &*it;
}

void JsonFields::reject(const char* name, const std::string& accepted) {
  note(rejected(path(name), accepted));
}

void JsonFields::note(gdr::Status status) {
  if (first_ && !status) first_ = std::move(status);
}

bool JsonFields::read_number(const char* name, double low, double high, double* value) {
  const Json* found = find(name);
  if (found == nullptr) return false;
  if (found->is_number() && *found >= low && *found <= high) {
    *value = found->get<double>();
    return true;
  }
  reject(name, "a number from " + text(low) + " to " + text(high));
  return false;
}

bool JsonFields::read_integer(const char* name, uint64_t low, uint64_t high, uint64_t* value) {
  const Json* found = find(name);
  if (found == nullptr) return false;
  if (found->is_number_unsigned() && *found >= low && *found <= high) {
    *value = found->get<uint64_t>();
    return true;
  }
  reject(name, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return false;
}

void JsonFields::boolean(const char* name, bool* target) {
  choice<bool>(name, {{true, true}, {false, false}}, "true or false", target);
}

void JsonFields::hex(const char* name, uint64_t* target) {
  std::string text;
  string(name, is_hex64, "up to 16 hexadecimal digits", &text);
  if (!text.empty()) *target = std::stoull(text, nullptr, 16);
}

void JsonFields::string(const char* name, bool (*valid)(const std::string&),
                        const std::string& accepted, std::string* target) {
  const Json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_string() || !valid(value->get<std::string>())) return reject(name, accepted);
  *target = value->get<std::string>();
}

void JsonFields::strings(const char* name, std::vector<std::string>* target) {
  const Json* value = find(name);
  if (value == nullptr) return;
  auto is_string = [](const Json& item) { return item.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_string)) {
    return reject(name, "a list of strings");
  }
  *target = value->get<std::vector<std::string>>();
}

void JsonFields::objects(const char* name,
                         const std::function<gdr::Status(const Json&, std::string)>& read) {
  const Json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_array()) return reject(name, "a list of objects");
  size_t i = 0;
  for (const Json& item : *value) note(read(item, path(name) + "[" + std::to_string(i++) + "]"));
}

gdr::Status JsonFields::result() {
  if (!first_ || !object_.is_object()) return first_;
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    std::string list;
    for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
    return gdr::fail(gdr::Code::kInvalidUsage,
                     "unknown field \"" + path(name) + "\"; known here are: " + list);
  }
  return first_;
}

}  // namespace softhca
