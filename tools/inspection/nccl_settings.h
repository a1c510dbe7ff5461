// NCCL's variables by which it chooses HCAs and routes (docs/nccl-choice.md lists them).
#pragma once

#include "base/finding.h"
#include "plugin/config/environment.h"
#include "plugin/config/options.h"
#include "tools/prediction/settings.h"

namespace gdr::tools::topo {

// Returns all settings but the release: `options` has those that the plugin reads, too. A value of
// `environment` that cannot be used adds an error, and its default counts.
topology::nccl::Settings nccl_settings(const config::Environment& environment,
                                       const config::Options& options, Findings* findings);

}  // namespace gdr::tools::topo
