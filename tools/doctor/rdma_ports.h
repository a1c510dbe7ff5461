// The ports of every HCA, as sysfs and verbs show them.
#pragma once

namespace gdr::tools::doctor {

struct Host;

struct RdmaPorts {};

// Reads them; `host` has its root, environment and topology already.
RdmaPorts read_rdma_ports(const Host& host);

}  // namespace gdr::tools::doctor
