// NCCL's variables by which it chooses HCAs and routes, and which only the prediction reads
// (docs/nccl-choice.md lists them).
#pragma once

#include "base/finding.h"
#include "plugin/config/environment.h"
#include "tools/prediction/settings.h"

namespace gdr::tools::topo {

// Returns the settings of an environment, but for those that the plugin reads, too
// (NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ, NCCL_PXN_DISABLE), and for the release. A value that
// cannot be used adds an error, and its default counts.
topology::nccl::Settings nccl_settings(const config::Environment& environment, Findings* findings);

}  // namespace gdr::tools::topo
