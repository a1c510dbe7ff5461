// Whether a port that is down is meant to be in use, as far as sysfs shows.
#pragma once

#include <filesystem>
#include <string>

namespace gdr::tools::topo {

// Returns what shows that the port of an RDMA device is cabled or configured, for people: "it has
// the address 10.0.0.1"; "" where nothing shows it. Reads phys_state, lid and
// gids below class/infiniband of `sysfs_root`, where an empty root shows nothing:
//
// - The physical link is up, or recovers from errors: the port is cabled.
// - An InfiniBand port has a LID: a subnet manager configured it since the driver was loaded.
// - A GID is a mapped IPv4 address: the network interface of a RoCE port has it. The link-local GID
//   that each port has from its MAC address or GUID shows nothing.
std::string sign_of_use(const std::filesystem::path& sysfs_root, const std::string& hca, int port);

}  // namespace gdr::tools::topo
