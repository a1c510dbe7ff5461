#pragma once

#include <climits>

#include "topology/model.h"

namespace gdr::topology {

// Adds links to a GPU. Links to the same GPU are one entry, and so are links to all switches and
// links to all CPUs: their counts add up.
inline void add_nvlink(Gpu* gpu, const NvLink& link) {
  for (NvLink& known : gpu->nvlinks) {
    if (known.to == link.to && known.gpu == link.gpu) {
      known.count = link.count > INT_MAX - known.count ? INT_MAX : known.count + link.count;
      return;
    }
  }
  gpu->nvlinks.push_back(link);
}

}  // namespace gdr::topology
