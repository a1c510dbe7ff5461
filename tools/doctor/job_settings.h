// The settings that let NCCL use the rails, for the environment of jobs.
#pragma once

#include <string>

#include "tools/inspection/inspection.h"

namespace gdr::tools::doctor {

// Returns lines for a shell, each below a comment that says why it helps, and only those that do:
//   NCCL_IB_HCA, GDR_NCCL_RAIL_MAP   unset where they give GPUs worse rails than the machine has
//   NCCL_IB_HCA                      the rails, where the machine has other ports, too
//   NCCL_NET_GDR_C2C                 where the release does not use NVLink-C2C by itself
//   NCCL_NET_GDR_LEVEL               where it is too low for the rails, but not across sockets
//   a remedy of tools/prediction/rail_agreement.h, where NCCL would use worse HCAs than the rails
// Each is tried on the prediction, together with those before it. What NCCL's configuration file
// sets is exported empty in place of an unset. NCCL_CROSS_NIC is never among them: whether it helps
// depends on the fabric. Values are quoted for a POSIX shell. Where the machine `has_fault`, such
// as a rail that is down, a comment is in place of NCCL_IB_HCA and NCCL_NET_GDR_LEVEL: they would
// be for what is left of the machine, and stay when it is repaired.
std::string job_settings(const topo::Inspection& inspection, bool has_fault = false);

}  // namespace gdr::tools::doctor
