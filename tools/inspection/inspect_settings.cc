#include "tools/inspection/inspect_settings.h"

#include <string>

#include "plugin/config/load.h"
#include "plugin/config/values.h"
#include "tools/inspection/nccl_settings.h"

namespace gdr::tools::topo {

InspectSettings read_settings(const InspectOptions& asked, Findings* findings) {
  const SettingSources sources = asked.sources.has_value() ? *asked.sources : read_sources();
  InspectSettings settings{.asked = asked, .options = {}, .nccl = {}, .set = {}};
  for (const char* name : {kLevelVariable, kHcaVariable, kRailMapVariable}) {
    if (auto setting = find_source(sources, name)) settings.set.emplace(name, *setting);
  }
  settings.options = config::load(sources.all, findings);
  if (settings.options.disable != 0) settings.set[kDisableVariable] = {};
  settings.nccl = nccl_settings(sources.all, settings.options, findings);
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
