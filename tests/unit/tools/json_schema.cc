#include "tests/unit/tools/json_schema.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

namespace gdr::tools {
namespace {

using Json = nlohmann::ordered_json;

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

bool is_of_a_type(const Json& value, const Json& types) {
  if (types.is_string()) return is_of_type(value, types);
  return std::any_of(types.begin(), types.end(),
                     [&](const Json& type) { return is_of_type(value, type.get<std::string>()); });
}

class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  void check(const Json& schema, const Json& value, const std::string& place) {
    check_keywords(schema, place);
    if (schema.contains("$ref")) {
      const std::string target = schema["$ref"];
      // Beside it there is only a description.
      return check(root_.at(Json::json_pointer(target.substr(1))), value, place);
    }
    if (schema.contains("type") && !is_of_a_type(value, schema["type"])) {
      return add(place, "is not of its type: " + value.dump());
    }
    check_scalar(schema, value, place);
    if (value.is_array()) check_items(schema, value, place);
    if (value.is_object()) check_keys(schema, value, place);
  }

  std::vector<std::string> violations() const { return violations_; }

 private:
  void add(const std::string& place, const std::string& text) {
    violations_.push_back(place + ": " + text);
  }

  void check_keywords(const Json& schema, const std::string& place) {
    static const std::set<std::string> kKnown = {
        "$schema",  "$defs", "title",   "description", "$ref",  "type", "properties",
        "required", "items", "pattern", "minimum",     "const", "enum", "additionalProperties"};
    for (const auto& [keyword, unused] : schema.items()) {
      if (!kKnown.contains(keyword)) add(place, "the schema has the keyword " + keyword);
    }
  }

  void check_scalar(const Json& schema, const Json& value, const std::string& place) {
    if (schema.contains("const") && value != schema["const"]) add(place, "is " + value.dump());
    if (schema.contains("enum")) {
      const Json& values = schema["enum"];
      if (std::find(values.begin(), values.end(), value) == values.end()) {
        add(place, "is none of its values: " + value.dump());
      }
    }
    if (schema.contains("minimum") && value.is_number() && value < schema["minimum"]) {
      add(place, "is too small: " + value.dump());
    }
    if (schema.contains("pattern") && value.is_string() && !matches(schema["pattern"], value)) {
      add(place, "is not of its pattern: " + value.dump());
    }
  }

  bool matches(const std::string& pattern, const std::string& text) {
    auto [compiled, is_new] = patterns_.try_emplace(pattern);
    if (is_new) compiled->second = std::regex(pattern);
    return std::regex_search(text, compiled->second);
  }

  void check_items(const Json& schema, const Json& value, const std::string& place) {
    if (!schema.contains("items")) return add(place, "the schema describes no items");
    for (size_t i = 0; i < value.size(); ++i) {
      check(schema["items"], value[i], place + "/" + std::to_string(i));
    }
  }

  void check_keys(const Json& schema, const Json& value, const std::string& place) {
    static const Json kNone = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : kNone;
    for (const auto& [key, unused] : properties.items()) {
      if (!value.contains(key)) add(place, "lacks the key " + key);
    }
    const size_t required = schema.contains("required") ? schema["required"].size() : 0;
    if (required != properties.size()) {
      add(place, "the schema does not require all keys");
    }
    for (const auto& [key, item] : value.items()) {
      const std::string below = place + "/" + key;
      if (properties.contains(key)) {
        check(properties[key], item, below);
      } else if (schema.contains("additionalProperties")) {
        check(schema["additionalProperties"], item, below);
      } else {
        add(below, "the schema does not describe the key");
      }
    }
  }

  const Json& root_;
  std::map<std::string, std::regex> patterns_;  // compiled, since that takes long
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> violations(const Json& schema, const Json& value) {
  SchemaCheck check(schema);
  check.check(schema, value, "");
  return check.violations();
}

}  // namespace gdr::tools
