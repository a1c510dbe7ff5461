// Decides the rails of a machine as the plugin would: of this machine, or of one in a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/inspection/user_settings.h"
#include "tools/prediction/predicted_rails.h"
#include "transport/device/hca_filter.h"

namespace gdr::tools::topo {

struct InspectOptions {
  // "live" for this machine; else the name of a file (XML of hwloc or NCCL), or of a folder
  // gathered by hwloc-gather-topology.
  std::string from = "live";
  // Which host of a file that describes several: its position from 0, or its name (the host_hash of
  // NCCL's files); nothing: the first.
  std::optional<std::string> host;
  // The release of NCCL whose rules count, in the grammar of nccl::Release; nothing: the newest
  // whose rules are known.
  std::optional<std::string> nccl_version;
  // What sets variables on the machine of a folder; nothing: what sets those of this process.
  std::optional<SettingSources> sources = {};
};

struct Inspection {
  topology::PredictedRails decision;  // with all findings
  // The ports that the verbs library or the file lists and that are not in `decision`.
  std::vector<transport::SkippedPort> not_offered = {};
  // The sysfs that shows the machine: /sys, or that of a gathered folder; empty for a file.
  std::filesystem::path sysfs_root = {};
  // The decision without NCCL_IB_HCA and the rail map, where some GPU loses by them (see
  // restriction.h); else nothing.
  std::optional<topology::PredictedRails> unrestricted = {};
  // NCCL_IB_HCA, NCCL_NET_GDR_LEVEL, NCCL_IB_DISABLE and GDR_NCCL_RAIL_MAP, but for a map that does
  // not fit the machine.
  UserSettings settings = {};
  // Those of the two that are in force, with their values: "NCCL_IB_HCA=mlx5_0", or two joined by
  // " and "; "" where `unrestricted` is nothing.
  std::string restricted_by = {};
};

// Returns the decision, and what it does not cover. The HCAs of a live machine are those that the
// verbs library lists, or those of sysfs where it cannot be loaded. Fails with kInvalidUsage or
// kInvalidArgument where one of the options cannot be used, and with another code where the machine
// cannot be read.
Result<Inspection> inspect(const InspectOptions& options);

}  // namespace gdr::tools::topo
