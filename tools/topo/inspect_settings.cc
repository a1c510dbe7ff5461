#include "tools/topo/inspect_settings.h"

#include <array>
#include <string>
#include <utility>

#include "plugin/config/load.h"
#include "plugin/config/values.h"
#include "plugin/config/variables.h"
#include "tools/topo/nccl_settings.h"

namespace gdr::tools::topo {
namespace {

// Fails where `value`, given on the command line, cannot be a value of the variable.
Status check_flag(const std::string& name, const std::optional<std::string>& value) {
  if (!value.has_value() || value->empty()) return {};
  for (const config::Variable& variable : config::variables()) {
    if (variable.name != name) continue;
    config::Options unused;
    Findings notes;
    Status status = variable.assign(*value, &unused, &notes);
    if (!status) {
      return fail(Code::kInvalidUsage,
                  to_string({FindingKind::kBadValue, Severity::kError, flag_of(name),
                             config::quoted(*value) + " cannot be used: " + status.error().text,
                             "use " + variable.accepted}));
    }
  }
  return {};
}

// The options of the command line, by the variables that they override.
std::array<std::pair<const char*, const std::optional<std::string>*>, 3> overrides_of(
    const InspectOptions& asked) {
  return {{{kLevelVariable, &asked.gdr_level},
           {kHcaVariable, &asked.hca},
           {kRailMapVariable, &asked.rail_map}}};
}

// Returns the variables with errors.
UserSettings unusable_settings(const Findings& findings, const SettingSources& sources) {
  UserSettings settings;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError) continue;
    if (auto setting = find_source(sources, finding.subject, {})) {
      settings.emplace(finding.subject, *setting);
    }
  }
  return settings;
}

}  // namespace

Result<InspectSettings> read_settings(const InspectOptions& asked, Findings* findings) {
  const SettingSources sources = read_sources();
  config::Environment environment = sources.all;
  InspectSettings settings{.asked = asked, .options = {}, .nccl = {}, .set = {}, .unusable = {}};
  for (const auto& [name, option] : overrides_of(asked)) {
    if (option->has_value()) environment[name] = **option;
    if (auto setting = find_source(sources, name, *option)) settings.set.emplace(name, *setting);
    // A bad value in the environment is only reported; a bad value on the command line is an error.
    if (Status usable = check_flag(name, *option); !usable) return forward_error(usable);
  }
  settings.options = config::load(environment, findings);
  settings.nccl = nccl_settings(environment, settings.options, findings);
  settings.unusable = unusable_settings(*findings, sources);
  return settings;
}

Result<topology::nccl::Release> release_of(const InspectOptions& asked, Findings* findings) {
  using topology::nccl::Release;
  if (!asked.nccl_version.has_value()) return topology::nccl::kNewestRelease;
  Result<Release> release = Release::parse(*asked.nccl_version);
  const std::string newest = topology::nccl::kNewestRelease.to_string();
  if (!release || release->major != topology::nccl::kNewestRelease.major) {
    return fail(Code::kInvalidUsage,
                to_string({FindingKind::kBadValue, Severity::kError, "--nccl-version",
                           config::quoted(*asked.nccl_version) +
                               " cannot be used: it is not a release of NCCL 2",
                           "use one such as 2.28.9 or 2.28; the newest known is " + newest}));
  }
  const std::string note = topology::nccl::note_on_rules(*release);
  if (!note.empty())
    findings->push_back({FindingKind::kNcclRelease, Severity::kInfo, "--nccl-version", note, ""});
  return release;
}

}  // namespace gdr::tools::topo
