#include "tools/inspection/inspect_settings.h"

#include <strings.h>

#include <climits>
#include <string>
#include <string_view>

#include "plugin/config/load.h"
#include "plugin/config/values.h"
#include "topology/gdr_level.h"

namespace gdr::tools::topo {
namespace {

using topology::nccl::NetDevicesPolicy;
using topology::nccl::Settings;

struct NcclVariable {
  const char* name;
  const char* accepted;
  const char* default_text;
  // Returns why the value cannot be used, and leaves the settings as they are then.
  Status (*assign)(const std::string& value, Settings* settings);
};

Status read_number(const std::string& value, int* number) {
  return config::parse_integer(value, {INT_MIN, INT_MAX}, number);
}

// A number of which NCCL asks only whether it is 0.
template <class Switch>
Status read_switch(const std::string& value, Switch* is_on) {
  int number = 0;
  Status status = read_number(value, &number);
  if (status) *is_on = number != 0;
  return status;
}

Status read_policy(const std::string& value, Settings* settings) {
  constexpr std::string_view kMax = "MAX:";
  NetDevicesPolicy policy;
  if (strcasecmp(value.c_str(), "ALL") == 0) {
    policy.kind = NetDevicesPolicy::Kind::kAll;
  } else if (strncasecmp(value.c_str(), kMax.data(), kMax.size()) == 0 &&
             config::parse_integer(value.substr(kMax.size()), {1, INT_MAX}, &policy.max)) {
    policy.kind = NetDevicesPolicy::Kind::kMax;
  } else if (strcasecmp(value.c_str(), "AUTO") != 0) {
    return fail(Code::kInvalidUsage,
                "it is not AUTO, ALL or MAX:n with n from 1 (NCCL takes AUTO)");
  }
  settings->net_devices = policy;
  return {};
}

Status read_peer_level(const std::string& value, Settings* settings) {
  Result<topology::GdrLevel> level = topology::GdrLevel::parse(value);
  if (!level) return forward_error(level);
  settings->p2p_level = level->path();
  return {};
}

// It counts whatever NCCL_P2P_LEVEL is, so its row comes later.
Status read_peer_disable(const std::string& value, Settings* settings) {
  int number = 0;
  Status status = read_number(value, &number);
  if (status && number == 1) settings->p2p_level = topology::PathClass::kLoc;
  return status;
}

constexpr NcclVariable kVariables[] = {
    {"NCCL_NET_GDR_READ", "a number", "-2",
     [](const std::string& value, Settings* to) { return read_number(value, &to->gdr_read); }},
    {"NCCL_NET_GDR_C2C", "a number", "1 from NCCL 2.27 on, 0 before",
     [](const std::string& value, Settings* to) { return read_switch(value, &to->gdr_c2c); }},
    {"NCCL_NET_GDR_MLOPART", "a number", "0",
     [](const std::string& value, Settings* to) { return read_switch(value, &to->gdr_mlopart); }},
    {"NCCL_PXN_C2C", "a number", "1 from NCCL 2.28 on, 0 before",
     [](const std::string& value, Settings* to) { return read_switch(value, &to->pxn_c2c); }},
    {"NCCL_P2P_LEVEL", "a path class in capitals, or a legacy number from 0 to 4",
     "PXB, or SYS with at most two GPUs beside an AMD CPU", read_peer_level},
    {"NCCL_P2P_DISABLE", "a number", "0", read_peer_disable},
    {"NCCL_NVB_DISABLE", "a number", "0",
     [](const std::string& value, Settings* to) { return read_switch(value, &to->nvb_disable); }},
    {"NCCL_NETDEVS_POLICY", "AUTO, ALL or MAX:n", "AUTO", read_policy},
};

}  // namespace

Settings nccl_settings(const config::Environment& environment, const config::Options& options,
                       Findings* findings) {
  Settings settings;
  settings.pxn_disable = options.pxn_disable;
  if (options.gdr_level) settings.gdr_level = options.gdr_level->path();
  for (const NcclVariable& variable : kVariables) {
    const auto set = environment.find(variable.name);
    if (set == environment.end() || set->second.empty()) continue;
    Status status = variable.assign(set->second, &settings);
    if (status) continue;
    findings->push_back({FindingKind::kBadValue, Severity::kError, variable.name,
                         config::quoted(set->second) + " cannot be used: " + status.error().text +
                             "; the default is used: " + variable.default_text,
                         std::string("use ") + variable.accepted});
  }
  return settings;
}

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
