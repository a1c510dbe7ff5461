// The settings that a machine is inspected with: of the process environment, NCCL's configuration
// files and the command line.
#pragma once

#include "base/finding.h"
#include "base/result.h"
#include "plugin/config/options.h"
#include "tools/inspection/inspection.h"
#include "tools/prediction/settings.h"

namespace gdr::tools::topo {

struct InspectSettings {
  InspectOptions asked;                // of the command line
  config::Options options;             // what is in force
  topology::nccl::Settings nccl = {};  // likewise, but for the release
  // NCCL_IB_HCA, NCCL_NET_GDR_LEVEL and GDR_NCCL_RAIL_MAP, whether or not they can be used.
  UserSettings set;
};

// Returns the settings by which NCCL chooses HCAs and routes (docs/nccl-choice.md lists them), but
// for the release: `options` has those that the plugin reads, too. A value of `environment` that
// cannot be used adds an error, and its default counts.
topology::nccl::Settings nccl_settings(const config::Environment& environment,
                                       const config::Options& options, Findings* findings);

// Reads the environment and NCCL's files once, unless `asked` has what they set. A bad value there
// adds an error to `findings`.
InspectSettings read_settings(const InspectOptions& asked, Findings* findings);

// Returns the release of NCCL that is asked for, with a note where its rules are not known. Fails
// with kInvalidUsage where it is none of NCCL 2.
Result<topology::nccl::Release> release_of(const InspectOptions& asked, Findings* findings);

}  // namespace gdr::tools::topo
