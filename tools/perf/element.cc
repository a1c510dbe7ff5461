#include "tools/perf/element.h"

#include "tools/common/pattern.h"

namespace gdr::tools {
namespace {
// Returns a value below 64, so that sums over fewer than 2^18 ranks are exact.
uint32_t test_value(uint64_t seed, int rank, size_t index) {
  return static_cast<uint32_t>(
      mix64(seed ^ (static_cast<uint64_t>(rank) + 1) << 40 ^ index * 0x9e3779b97f4a7c15ull) >> 58);
}
}  // namespace

void add_elements(float* out, const float* a, const float* b, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void fill_elements(float* out, size_t count, uint64_t seed, int rank) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(test_value(seed, rank, i));
}

uint64_t count_wrong_elements(const float* found, size_t count, uint64_t seed, int nranks) {
  uint64_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int rank = 0; rank < nranks; ++rank) sum += test_value(seed, rank, i);
    if (found[i] != static_cast<float>(sum)) ++wrong;
  }
  return wrong;
}

}  // namespace gdr::tools
