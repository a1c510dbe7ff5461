// The two ways to show a machine with its rails. All return text; names that come from files are
// cleaned, so that they can neither steer a terminal nor break the format.
#pragma once

#include <string>
#include <vector>

#include "plugin/discovery/discovery.h"
#include "tools/prediction/prediction.h"

namespace gdr::tools::topo {

// The matrix of `nvidia-smi topo -m` (GPU0.., NIC0.., CPU and NUMA affinity, the NIC legend) with
// the same words; below it the rails, the excluded ports with the reason, and for each GPU its
// rails, the devices that NCCL will use, and the GPUDirect verdict in both directions.
// `not_offered` has ports that are not in the decision, each with its reason; they follow the
// excluded ports. `map` is the setting with the map that the rails are by; "" for none.
std::string matrix_text(const topology::PredictedRails& decision,
                        const std::vector<discovery::SkippedPort>& not_offered = {},
                        const std::string& map = "");

// The number of the JSON's form. It grows where a key is removed, renamed or changes its meaning or
// type; keys may be added without that.
inline constexpr int kJsonSchemaVersion = 2;

// One JSON object, of the form that docs/topo.md describes. It is an interface.
std::string json_text(const topology::PredictedRails& decision,
                      const std::vector<discovery::SkippedPort>& not_offered = {});

}  // namespace gdr::tools::topo
