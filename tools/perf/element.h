// The elements of all_reduce, which are floats: their sums and test values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::tools {

inline constexpr size_t kElementBytes = sizeof(float);
inline constexpr char kElementType[] = "float32";

// Sets out[i] = a[i] + b[i]; out may be a or b.
void add_elements(float* out, const float* a, const float* b, size_t count);
// Sets count elements to the test values of (seed, rank): small whole numbers, so that their sums
// are exact in every order.
void fill_elements(float* out, size_t count, uint64_t seed, int rank);
// Returns how many elements differ from the sum of all ranks' test values.
uint64_t count_wrong_elements(const float* found, size_t count, uint64_t seed, int nranks);

}  // namespace gdr::tools
