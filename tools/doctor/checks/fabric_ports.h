// What the checks of ports and of the fabric share: which ports they judge, how they name them, and
// the files of /dev/infiniband by which programs open the HCAs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/doctor/check.h"
#include "tools/doctor/facts/host.h"

namespace gdr::tools::doctor {

// A port, with what is known about its use. The pointers are into Host::ports.
struct FabricPort {
  const RdmaHca* hca = nullptr;
  const RdmaPort* port = nullptr;
  std::string label;     // "mlx5_0:1"
  std::string excluded;  // why it carries no GPU's traffic, "" for a port that does or may
};

// Returns every port of the machine. On a machine with GPUs all but the rails are excluded, with
// the reason for it; without GPUs, or where the topology is unknown, none is.
std::vector<FabricPort> fabric_ports(const Host& host);
// Returns those that are not excluded.
std::vector<FabricPort> judged_ports(const Host& host);

// Returns why the transport cannot use a port whatever its state, and what can: " is an iWARP
// device,
// ... Fix: ...". "" for a port that it can use.
std::string fault_of_kind(const Host& host, const RdmaHca& hca, const RdmaPort& port);

// What a check says where there is no port to look at: that there is none, or that all are
// excluded.
Observation no_fabric_port(const Host& host);

// Whether the machine has GPUs, so that its rails are known.
bool has_rails(const Host& host);

// Returns the network interface of a port; null where it has none, or this process cannot see it.
const RdmaNetdev* netdev_of(const Host& host, const RdmaPort& port);

// Returns the uverbs* of each RDMA device in sysfs.
std::map<std::string, std::string> uverbs_by_device(const Host& host);

// Returns the file of /dev/infiniband with that name; null where there is none, or where it was not
// looked for.
const DeviceFile* uverbs_file(const Host& host, const std::string& name);

// Whether the file is kept from this container or job, which has others: a pod or a job often gets
// some of the machine's HCAs, while sysfs shows all of them.
bool is_withheld(const Host& host, const std::string& name);

}  // namespace gdr::tools::doctor
