// Element types of all_reduce: their names, sums and test values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace gdr::tools {

struct Element {
  const char* name;
  size_t bytes;
  // Sets out[i] = a[i] + b[i]; out may be a or b. int32 wraps around.
  void (*add)(void* out, const void* a, const void* b, size_t count);
  // Sets count elements to the test values of (seed, rank): small whole numbers, so that their sums
  // are exact in every order.
  void (*fill)(void* out, size_t count, uint64_t seed, int rank);
  // Returns how many elements differ from the sum of all ranks' test values.
  uint64_t (*count_wrong)(const void* values, size_t count, uint64_t seed, int nranks);
};

// Finds an element type by its name: float32 (or float), float64 or int32. The result is static.
Result<const Element*> find_element(const std::string& name);

}  // namespace gdr::tools
