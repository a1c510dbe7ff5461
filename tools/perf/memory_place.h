// Where --memory puts a rank's messages.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools {

struct MemoryPlace {
  bool cuda = false;
  int device = -1;  // of CUDA; -1: the rank modulo their count

  bool operator==(const MemoryPlace&) const = default;
};

// "host", "cuda" or "cuda:N": one for all ranks, or two with a comma between, one per side.
Result<std::vector<MemoryPlace>> parse_memory(const std::string& text);

inline const MemoryPlace& place_of(int rank, const std::vector<MemoryPlace>& places) {
  return places[static_cast<size_t>(rank) % places.size()];
}

}  // namespace gdr::tools
