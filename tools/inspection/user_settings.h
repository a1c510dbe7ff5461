// Where the settings that decide about rails come from: the environment, or a file of NCCL.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "plugin/config/environment.h"
#include "plugin/config/nccl_conf.h"

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

}  // namespace gdr::tools::topo
