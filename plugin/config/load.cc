#include "plugin/config/load.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "topology/live/read_machine.h"

namespace gdr::config {
namespace {

constexpr char kTopologyFile[] = "NCCL_TOPO_FILE";
constexpr std::string_view kOwnPrefix = "GDR_NCCL_";
// Of NCCL's own transport, and of the sockets that its handshake uses.
constexpr std::string_view kTransportPrefixes[] = {"NCCL_IB_", "NCCL_SOCKET_"};
// What may stand before the word that names a setting, the longer ones first.
constexpr std::string_view kPrefixes[] = {"NCCL_IB_", "NCCL_SOCKET_", "NCCL_NET_", "NCCL_"};

Finding rejection(const Variable& variable, const std::string& value, const std::string& reason,
                  std::string used = "") {
  if (used.empty()) used = std::string("the default is used: ") + variable.default_text;
  return {FindingKind::kBadValue, Severity::kError, variable.name,
          quoted(value) + " cannot be used: " + reason + "; " + used, "use " + variable.accepted};
}

void read(const Variable& variable, const std::string& value, Options* options,
          Findings* findings) {
  Findings notes;
  Status status = variable.assign(value, options, &notes);
  if (!status) {
    std::string used;
    // Its default would use the HCAs that the user, and NCCL, leave out.
    if (std::string_view(variable.name) == "NCCL_IB_DISABLE" &&
        nccl_number(value).value_or(0) != 0) {
      options->disable = 1;
      used = "no device is offered, as NCCL reads it";
    }
    findings->push_back(rejection(variable, value, status.error().text, used));
    return;
  }
  for (Finding& note : notes) {
    note.subject = variable.name;
    note.text = quoted(value) + ": " + note.text;
    findings->push_back(std::move(note));
  }
}

// NCCL reads the range in the family of NCCL_IB_ADDR_FAMILY, so a range of the other family has no
// effect there.
void check_range_family(const Environment& environment, Options* options, Findings* findings) {
  if (!options->address_range) return;
  if (transport::family_of(options->address_range->address) == options->address_family) return;
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

// Recovery posts statements, and stops and revives queue pairs, beside the thread that NCCL calls.
void check_locks_of_mlx5(const Environment& environment, Options* options, Findings* findings) {
  const auto set = environment.find(kMlx5SingleThreaded);
  if (set == environment.end() || set->second != "1") return;
  options->failover = false;
  findings->push_back({FindingKind::kMlx5Locks, Severity::kWarning, kMlx5SingleThreaded,
                       "\"1\" removes the locks of libmlx5, which ends the process where two "
                       "threads meet; failover is off, as it needs a second thread",
                       "unset it; NCCL itself uses several threads"});
}

// Names that look like those of NCCL's InfiniBand transport but are read by others:
// nccl-rdma-sharp-plugins, former releases of RCCL, and NCCL's socket transport (net_socket.cc).
constexpr std::string_view kForeign[] = {
    "NCCL_IB_IS_GLOBAL",  "NCCL_IB_SOCK_CLIENT_PORT_REUSE", "NCCL_IB_SOCK_SERVER_PORT_REUSE",
    "NCCL_SOCKET_INLINE", "NCCL_SOCKET_MIN_TASKSIZE",       "NCCL_SOCKET_NTHREADS"};

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Variable& variable : variables()) names.emplace_back(variable.name);
  for (const NotApplicable& variable : not_applicable()) names.emplace_back(variable.name);
  return names;
}

bool contains(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The name without its prefix: "TIMEOUT" of NCCL_IB_TIMEOUT and of GDR_NCCL_IB_TIMEOUT.
std::string word_of(std::string_view name) {
  if (name.starts_with(kOwnPrefix)) name.remove_prefix(kOwnPrefix.find("NCCL_"));
  for (std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return std::string(name.substr(prefix.size()));
  }
  return std::string(name);
}

// How far two names are apart: first by what they set, then with their prefixes.
std::pair<size_t, size_t> distance(const std::string& a, const std::string& b) {
  return {edit_distance(word_of(a), word_of(b)), edit_distance(a, b)};
}

std::string nearest_name(const std::vector<std::string>& names, const std::string& name) {
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return distance(name, a) < distance(name, b);
  });
}

// A quarter of the characters may differ, at least one and at most three: of short names few are
// alike by accident then.
bool is_misspelling(const std::string& name, const std::string& nearest) {
  const size_t longer = std::max(word_of(name).size(), word_of(nearest).size());
  return distance(name, nearest).first <= std::clamp<size_t>(longer / 4, 1, 3);
}

// A name is suggested where it is alike, and of the plugin too or with another prefix only.
Finding unknown_own(const std::string& name, const std::string& nearest) {
  const bool is_near = nearest.starts_with(kOwnPrefix) ? is_misspelling(name, nearest)
                                                       : word_of(name) == word_of(nearest);
  return {FindingKind::kUnknownVariable, Severity::kWarning, printable(name),
          "the plugin has no variable of this name",
          is_near ? "check the spelling; the nearest name is " + nearest
                  : "unset " + printable(name) + "; nccl-gdr env prints all names"};
}

// Another plugin or release may read the name, so only a likely misspelling is a warning.
Finding unknown_of_nccl(const std::string& name, const std::string& nearest) {
  const char* text =
      "neither the plugin nor the transport of NCCL 2.30 reads a variable of this name";
  if (!is_misspelling(name, nearest)) {
    return {FindingKind::kUnknownVariable, Severity::kInfo, printable(name), text, ""};
  }
  return {FindingKind::kUnknownVariable, Severity::kWarning, printable(name), text,
          "check the spelling; the nearest name is " + nearest};
}

void check_unknown(const Environment& environment, Findings* findings) {
  const std::vector<std::string> names = known_names();
  for (const auto& [name, value] : environment) {
    const bool own = name.starts_with(kOwnPrefix);
    const bool of_transport =
        std::any_of(std::begin(kTransportPrefixes), std::end(kTransportPrefixes),
                    [&n = name](std::string_view prefix) { return n.starts_with(prefix); });
    if (!own && !of_transport) continue;
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

// Returns the value that sets a variable; null where it is unset. An empty value sets only the
// topology file: NCCL looks for a file of the name "", and then reads not its default file, either
// (ncclTopoGetSystem in its src/graph/topo.cc).
const std::string* value_of(const Environment& environment, const std::string& name) {
  const auto set = environment.find(name);
  if (set == environment.end()) return nullptr;
  return set->second.empty() && name != kTopologyFile ? nullptr : &set->second;
}

}  // namespace

Options load(const Environment& environment, Findings* findings) {
  Options options;
  Findings ignored;
  if (findings == nullptr) findings = &ignored;
  for (const Variable& variable : variables()) {
    const std::string* value = value_of(environment, variable.name);
    if (value != nullptr && !value->empty()) read(variable, *value, &options, findings);
  }
  const std::string* file = value_of(environment, kTopologyFile);
  if (file != nullptr && file->empty()) options.topology_file = topology::kNoFile;
  check_range_family(environment, &options, findings);
  check_locks_of_mlx5(environment, &options, findings);
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
    if (const std::string* value = value_of(environment, variable.name)) {
      row.state = Row::State::kSet;
      row.value = *value;
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
