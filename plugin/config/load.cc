#include "plugin/config/load.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace gdr::config {
namespace {

constexpr std::string_view kOwnPrefix = "GDR_NCCL_";
constexpr std::string_view kTransportPrefix = "NCCL_IB_";

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

// A name that differs by no more than this is taken for a misspelling.
constexpr size_t kMisspelling = 3;

// Names that look like NCCL's but are read by others: nccl-rdma-sharp-plugins, and former releases
// of RCCL.
constexpr std::string_view kForeign[] = {"NCCL_IB_IS_GLOBAL", "NCCL_IB_SOCK_CLIENT_PORT_REUSE",
                                         "NCCL_IB_SOCK_SERVER_PORT_REUSE"};

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Variable& variable : variables()) names.emplace_back(variable.name);
  for (const NotApplicable& variable : not_applicable()) names.emplace_back(variable.name);
  return names;
}

bool contains(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string nearest_name(const std::vector<std::string>& names, const std::string& name) {
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
}

Finding unknown_own(const std::string& name, const std::string& nearest) {
  return {Severity::kWarning, printable(name), "the plugin has no variable of this name",
          "check the spelling; the nearest name is " + nearest};
}

// Another plugin or release may read the name, so only a likely misspelling is a warning.
Finding unknown_of_nccl(const std::string& name, const std::string& nearest) {
  Finding finding{Severity::kInfo, printable(name),
                  "neither the plugin nor the transport of NCCL 2.30 reads a variable of this name",
                  ""};
  if (edit_distance(name, nearest) <= kMisspelling) {
    finding.severity = Severity::kWarning;
    finding.fix = "check the spelling; the nearest name is " + nearest;
  }
  return finding;
}

void check_unknown(const Environment& environment, Findings* findings) {
  const std::vector<std::string> names = known_names();
  for (const auto& [name, value] : environment) {
    const bool own = name.starts_with(kOwnPrefix);
    if (!own && !name.starts_with(kTransportPrefix)) continue;
    if (contains(names, name) || contains(kForeign, name)) continue;
    const std::string nearest = nearest_name(names, name);
    findings->push_back(own ? unknown_own(name, nearest) : unknown_of_nccl(name, nearest));
  }
}

void check_all_not_applicable(const Environment& environment, Findings* findings) {
  for (const NotApplicable& variable : not_applicable()) {
    auto set = environment.find(variable.name);
    if (set == environment.end() || set->second.empty()) continue;
    check_not_applicable(variable, set->second, findings);
  }
}

// Moves each finding to the row that it is about. Returns the others.
template <class Rows>
Findings distribute(Findings findings, Rows* rows) {
  Findings others;
  for (Finding& finding : findings) {
    auto row = std::find_if(rows->begin(), rows->end(),
                            [&](const auto& one) { return one.variable->name == finding.subject; });
    (row == rows->end() ? others : row->findings).push_back(std::move(finding));
  }
  return others;
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
  check_all_not_applicable(environment, findings);
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
  for (const NotApplicable& variable : not_applicable()) {
    auto set = environment.find(variable.name);
    description.not_applicable.push_back(
        {&variable, set == environment.end() ? "" : set->second, {}});
  }
  findings = distribute(std::move(findings), &description.rows);
  for (Row& row : description.rows) {
    bool rejected = std::any_of(row.findings.begin(), row.findings.end(), [](const Finding& one) {
      return one.severity == Severity::kError;
    });
    if (rejected) row.state = Row::State::kRejected;
  }
  description.unknown = distribute(std::move(findings), &description.not_applicable);
  return description;
}

}  // namespace gdr::config
