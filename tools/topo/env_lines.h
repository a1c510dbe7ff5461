// The settings that make NCCL use the rails, as lines for a shell.
#pragma once

#include <string>

#include "base/result.h"
#include "tools/topo/inspection.h"

namespace gdr::tools::topo {

// Returns `export` lines, each below a comment that says why it helps, and only those that do:
//   NCCL_IB_HCA                  the rails, where the machine has other ports, too
//   NCCL_NET_GDR_LEVEL           where rails are beyond the level, but not across sockets
//   NCCL_NET_GDR_C2C             where the release does not use NVLink-C2C by itself
//   GDR_NCCL_RAIL_MAP            the user's map
//   NCCL_NETDEVS_POLICY, NCCL_TOPO_FILE
//                                where NCCL would use worse HCAs than the rails, and follows them
//                                with the setting (see topology/live/rail_agreement.h)
// Each is judged with those before it. Settings that cannot be used are unset. What keeps GPUs off
// their ports is unset, or set to nothing where NCCL's configuration file has it. Where no setting
// helps, there are only comments, and so for what would have to name an HCA that the source has no
// name of, or a network interface without RDMA. The last comment counts the faults of check.h that
// these settings do not fix. Values are quoted for a POSIX shell. Fails with kInvalidUsage where no
// HCA has a name.
Result<std::string> env_lines(const Inspection& inspection);

}  // namespace gdr::tools::topo
