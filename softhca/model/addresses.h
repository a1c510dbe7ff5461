// Default addresses of the configured devices: GUIDs, and LIDs that do not collide. (The GID table
// of a port is DeviceConfig::gid_table.)
#pragma once

#include <cstdint>
#include <string>

#include "softhca/model/config.h"

namespace softhca {

// Returns a GUID that is the same in every process of this machine, and differs between machines
// (by /etc/machine-id) and between device names.
uint64_t default_guid(const std::string& device_name);

// Gives the InfiniBand devices without a LID the first ones after those that are configured.
void fill_lids(Config* config);

}  // namespace softhca
