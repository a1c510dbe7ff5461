#include "plugin/config/variables.h"

namespace gdr::config {
namespace {

using Notes = Findings;

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};

template <class T>
constexpr const char* kTypeName = "list";
template <>
constexpr const char* kTypeName<std::optional<transport::Cidr>> = "address range";
template <>
constexpr const char* kTypeName<std::optional<topology::GdrLevel>> = "path class";
template <>
constexpr const char* kTypeName<std::optional<topology::RailMap>> = "map";

template <class T>
Status assign_parsed(const std::string& value, T* field, [[maybe_unused]] Notes* notes) {
  using Type = typename Unwrapped<T>::type;
  auto parsed = Type::parse(value);
  if (!parsed) return forward_error(parsed);
  if constexpr (requires { parsed->notes(); }) {
    for (Finding& note : parsed->notes()) notes->push_back(std::move(note));
  }
  *field = std::move(*parsed);
  return {};
}

template <class T>
std::string show_parsed(const T& field) {
  return field.to_string();
}
template <class T>
std::string show_parsed(const std::optional<T>& field) {
  return field ? field->to_string() : "";
}

std::string range_text(int64_t low, int64_t high) {
  if (low == -high) return "a number";
  return std::to_string(low) + (high == low + 1 ? " or " : " to ") + std::to_string(high);
}

std::vector<Variable> make_variables() {
  std::vector<Variable> rows;
  const char* group = "";
#define GDR_GROUP(title) group = title;
#define GDR_INTEGER(field, name, fallback, low, high, unit, since, doc)                          \
  rows.push_back({group, name, "integer", range_text(low, high), std::to_string(fallback), unit, \
                  since, doc,                                                                    \
                  [](const std::string& value, Options* options, Notes*) {                       \
                    return parse_integer(value, {low, high}, &options->field);                   \
                  },                                                                             \
                  [](const Options& options) { return std::to_string(options.field); }});
#define GDR_BOOLEAN(field, name, fallback, since, doc)                                    \
  rows.push_back({group, name, "boolean", "0 or 1", fallback ? "1" : "0", "", since, doc, \
                  [](const std::string& value, Options* options, Notes*) {                \
                    const bool of_nccl = std::string_view(name).starts_with("NCCL_");     \
                    return parse_boolean(value, of_nccl, &options->field);                \
                  },                                                                      \
                  [](const Options& options) { return std::string(options.field ? "1" : "0"); }});
#define GDR_FAMILY(field, name, fallback, fallback_text, since, doc)                        \
  rows.push_back(                                                                           \
      {group, name, "address family", "AF_INET or AF_INET6", fallback_text, "", since, doc, \
       [](const std::string& value, Options* options, Notes*) {                             \
         return parse_family(value, &options->field);                                       \
       },                                                                                   \
       [](const Options& options) { return std::string(family_name(options.field)); }});
#define GDR_PARSED(type, field, name, accepted, fallback_text, since, doc)               \
  rows.push_back({group, name, kTypeName<type>, accepted, fallback_text, "", since, doc, \
                  [](const std::string& value, Options* options, Notes* notes) {         \
                    return assign_parsed(value, &options->field, notes);                 \
                  },                                                                     \
                  [](const Options& options) { return show_parsed(options.field); }});
#define GDR_TEXT(field, name, accepted, fallback_text, since, doc)              \
  rows.push_back({group, name, "text", accepted, fallback_text, "", since, doc, \
                  [](const std::string& value, Options* options, Notes*) {      \
                    options->field = value;                                     \
                    return Status{};                                            \
                  },                                                            \
                  [](const Options& options) { return options.field; }});
#include "plugin/config/options.def"
  return rows;
}

}  // namespace

const std::vector<Variable>& variables() {
  static const std::vector<Variable> rows = make_variables();
  return rows;
}

}  // namespace gdr::config
