// What the writers of JSON in this folder share: values that may be unknown, and the parts of the
// object that json_text() of render.h returns. docs/topo.schema.json describes all of it.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

using Json = nlohmann::ordered_json;

// Returns null for numbers that are not positive, with which the model says "unknown".
template <class Number>
Json number_or_null(Number number) {
  return number > 0 ? Json(number) : Json(nullptr);
}
// Returns null for negative numbers, with which the model says "unknown" or "none".
inline Json index_or_null(int number) { return number >= 0 ? Json(number) : Json(nullptr); }
inline Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
// Returns "0x" and at least `digits` digits; null for 0.
inline Json hex_or_null(uint64_t number, int digits) {
  return number == 0 ? Json(nullptr) : Json(fmt::format("0x{:0{}x}", number, digits));
}
template <class T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Returns the array of make(0) to make(count - 1).
template <class F>
Json array_of(size_t count, F&& make) {
  Json array = Json::array();
  for (size_t i = 0; i < count; ++i) array.push_back(make(i));
  return array;
}

// The keys that describe the machine: "source" to "hcas".
void add_machine(const Machine& machine, Json* root);

}  // namespace gdr::tools::topo
