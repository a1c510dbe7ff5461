// Decides the rails of a machine as the plugin would: of this machine, or of one in a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plugin/config/environment.h"
#include "plugin/config/nccl_conf.h"
#include "plugin/discovery/discovery.h"
#include "tools/prediction/prediction.h"

namespace gdr::tools::topo {

// The variables that decide about rails.
inline constexpr char kHcaVariable[] = "NCCL_IB_HCA";
inline constexpr char kLevelVariable[] = "NCCL_NET_GDR_LEVEL";
inline constexpr char kDisableVariable[] = "NCCL_IB_DISABLE";  // where it leaves none
inline constexpr char kRailMapVariable[] = "GDR_NCCL_RAIL_MAP";

// A setting of the user that is in force.
struct UserSetting {
  std::string value;
  // The line of NCCL's configuration that sets the variable; nothing: the environment does, which
  // counts before every file.
  std::optional<config::ConfPlace> place = {};
};

using UserSettings = std::map<std::string, UserSetting>;  // by the names of variables

// What sets variables.
struct SettingSources {
  config::Environment process;  // the process environment
  config::Environment all;      // with what NCCL's files add
  config::ConfPlaces places;    // the lines of these files
};

SettingSources read_sources();

// Returns what sets a variable: the environment or a file of NCCL; nothing where it is not set, or
// set to nothing.
std::optional<UserSetting> find_source(const SettingSources& sources, const std::string& name);

// Returns a setting with its value as the user gave it: "NCCL_IB_HCA=mlx5_0" or
// "NCCL_IB_HCA=mlx5_0 in line 3 of /etc/nccl.conf"; the name where it is not in force.
std::string setting_text(const UserSettings& settings, const std::string& name);

// The state of a PCI function as sysfs shows it at this moment, beside what the model of a machine
// holds: what a link runs at, and settings that cost bandwidth.
struct PciState {
  topology::PciLink current;  // what the link runs at; 0: unknown
  uint64_t largest_bar = 0;   // size in bytes; 0: unknown
  // What the function and its slot support, whatever a topology file states; 0: unknown.
  topology::PciLink best = {};
  bool operator==(const PciState&) const = default;
};

using PciStates = std::map<topology::Bdf, PciState>;

// Reads the state of the machine's switches, GPUs and HCAs. Files that are absent or cannot be read
// leave their fields unknown; functions without a folder in sysfs are left out.
PciStates read_pci_states(const topology::Machine& machine,
                          const std::filesystem::path& sysfs_root);

// Returns the size of the largest region in the text of sysfs's file `resource`: lines of first
// address, last address and flags, the first six of which are the BARs.
uint64_t largest_bar(std::string_view resource);

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
  std::vector<discovery::SkippedPort> not_offered = {};
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
