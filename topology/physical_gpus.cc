#include "topology/physical_gpus.h"

#include <algorithm>

namespace gdr::topology {

std::vector<std::vector<size_t>> physical_gpus(const Machine& machine) {
  std::vector<std::vector<size_t>> cards;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const Gpu& one = machine.gpus[gpu];
    const auto card =
        std::find_if(cards.begin(), cards.end(), [&](const std::vector<size_t>& other) {
          const Gpu& first = machine.gpus[other.front()];
          return one.partition >= 0 && first.partition >= 0 && first.bdf == one.bdf;
        });
    if (card == cards.end()) {
      cards.push_back({gpu});
    } else {
      card->push_back(gpu);
    }
  }
  return cards;
}

}  // namespace gdr::topology
