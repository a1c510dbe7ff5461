#pragma once

#include "topology/model.h"

namespace gdr::topology {

// Links to one GPU, and those to all switches or CPUs, are one entry.
inline void add_nvlink(Gpu* gpu, const NvLink& link) {
  for (NvLink& known : gpu->nvlinks) {
    if (known.to == link.to && known.gpu == link.gpu) {
      known.count += link.count;
      return;
    }
  }
  gpu->nvlinks.push_back(link);
}

}  // namespace gdr::topology
