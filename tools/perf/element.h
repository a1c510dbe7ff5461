// Element types of all_reduce: names, sums and test values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace gdr::tools {

struct Element {
  const char* name;
  size_t bytes;
  // out[i] = a[i] + b[i]; out may be a or b. int32 wraps.
  void (*add)(void* out, const void* a, const void* b, size_t count);
  // Sets count elements to the values of (seed, rank). Values are
  // small whole numbers, so that sums are exact in every order.
  void (*fill)(void* out, size_t count, uint64_t seed, int rank);
  // How many elements differ from the sum over all ranks.
  uint64_t (*count_wrong)(const void* values, size_t count, uint64_t seed, int nranks);
};

// float32, float64 or int32.
Result<const Element*> find_element(const std::string& name);

}  // namespace gdr::tools
