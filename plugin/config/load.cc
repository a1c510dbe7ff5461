#include "plugin/config/load.h"

#include <algorithm>
#include <string_view>

namespace gdr::config {
namespace {

constexpr std::string_view kOwnPrefix = "GDR_NCCL_";

Finding rejection(const Variable& variable, const std::string& value, const std::string& reason) {
  return {Severity::kError, variable.name,
          quoted(value) + " cannot be used: " + reason +
              "; the default is used: " + variable.default_text,
          "use " + variable.accepted};
}

void read(const Variable& variable, const std::string& value, Options* options,
          Findings* findings) {
  std::vector<std::string> notes;
  Status status = variable.assign(value, options, &notes);
  if (!status) {
    findings->push_back(rejection(variable, value, status.error().text));
    return;
  }
  for (const std::string& note : notes) {
    findings->push_back({Severity::kWarning, variable.name, quoted(value) + ": " + note, ""});
  }
}

// NCCL reads the range in the family of NCCL_IB_ADDR_FAMILY, so a range of the other family has no
// effect there.
void check_range_family(const Environment& environment, Options* options, Findings* findings) {
  if (!options->address_range || options->address_range->family == options->address_family) return;
  options->address_range.reset();
  for (const Variable& variable : variables()) {
    auto set = environment.find(variable.name);
    if (std::string_view(variable.name) != "NCCL_IB_ADDR_RANGE" || set == environment.end()) {
      continue;
    }
    std::string reason = std::string("NCCL_IB_ADDR_FAMILY is ") +
                         family_name(options->address_family) +
                         ", and the range is of the other family";
    findings->push_back(rejection(variable, set->second, reason));
  }
}

std::string nearest_name(const std::string& name) {
  const Variable* nearest = nullptr;
  size_t least = 0;
  for (const Variable& variable : variables()) {
    size_t distance = edit_distance(name, variable.name);
    if (nearest != nullptr && distance >= least) continue;
    nearest = &variable;
    least = distance;
  }
  return nearest->name;
}

void check_unknown(const Environment& environment, Findings* findings) {
  for (auto it = environment.lower_bound(kOwnPrefix); it != environment.end(); ++it) {
    const std::string& name = it->first;
    if (std::string_view(name).substr(0, kOwnPrefix.size()) != kOwnPrefix) break;
    bool known = std::any_of(variables().begin(), variables().end(),
                             [&](const Variable& variable) { return name == variable.name; });
    if (known) continue;
    findings->push_back({Severity::kWarning, printable(name),
                         "the plugin has no variable of this name",
                         "check the spelling; the nearest name is " + nearest_name(name)});
  }
}

}  // namespace

Options load(const Environment& environment, Findings* findings) {
  Options options;
  Findings ignored;
  if (findings == nullptr) findings = &ignored;
  for (const Variable& variable : variables()) {
    auto set = environment.find(variable.name);
    if (set == environment.end() || set->second.empty()) continue;
    read(variable, set->second, &options, findings);
  }
  check_range_family(environment, &options, findings);
  check_unknown(environment, findings);
  return options;
}

Description describe(const Environment& environment) {
  Findings findings;
  Options options = load(environment, &findings);
  Description description;
  for (const Variable& variable : variables()) {
    Row row{&variable, Row::State::kDefault, "", variable.show(options), {}};
    if (row.effective.empty()) row.effective = variable.default_text;
    auto set = environment.find(variable.name);
    if (set != environment.end() && !set->second.empty()) {
      row.state = Row::State::kSet;
      row.value = set->second;
    }
    description.rows.push_back(std::move(row));
  }
  for (const Finding& finding : findings) {
    auto row = std::find_if(description.rows.begin(), description.rows.end(),
                            [&](const Row& one) { return one.variable->name == finding.subject; });
    if (row == description.rows.end()) {
      description.unknown.push_back(finding);
      continue;
    }
    row->findings.push_back(finding);
    if (finding.severity == Severity::kError) row->state = Row::State::kRejected;
  }
  return description;
}

}  // namespace gdr::config
