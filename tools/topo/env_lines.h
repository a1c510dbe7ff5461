// The settings that make NCCL use the rails, as lines for a shell.
#pragma once

#include <string>

#include "tools/topo/inspect.h"

namespace gdr::tools::topo {

// Returns `export` lines, each below a comment that says why it helps, and only those that do:
//   NCCL_IB_HCA                  the rails, where the machine has other ports, too
//   NCCL_NET_GDR_LEVEL           where rails are beyond the level, but not across sockets
//   NCCL_NET_GDR_C2C             where the release does not use NVLink-C2C by itself
//   GDR_NCCL_RAIL_MAP            the map of options.rail_map
//   NCCL_NETDEVS_POLICY, GDR_NCCL_GENERATE_TOPO_FILE
//                                where NCCL would use worse HCAs than the rails, and follows them
//                                with the setting (see topology/live/rail_agreement.h)
// Each is judged with those before it. What keeps GPUs off their ports is unset.
// Where no setting helps, there are only comments. Values are quoted for a POSIX shell.
std::string env_lines(const Inspection& inspection, const InspectOptions& options);

}  // namespace gdr::tools::topo
