#include "tools/perf/ring_plan.h"

#include <algorithm>

#include "tools/common/pattern.h"

namespace gdr::tools {
namespace {
void append_slices(ElementRange segment, size_t slice_elements, bool reduce,
                   std::vector<Slice>* out) {
  for (size_t done = 0; done < segment.count; done += slice_elements) {
    out->push_back({segment.first + done, std::min(slice_elements, segment.count - done), reduce});
  }
}

// Returns a value below 64, so that sums over fewer than 2^18 ranks are exact.
uint32_t test_value(uint64_t seed, int rank, size_t index) {
  return static_cast<uint32_t>(
      mix64(seed ^ (static_cast<uint64_t>(rank) + 1) << 40 ^ index * 0x9e3779b97f4a7c15ull) >> 58);
}
}  // namespace

ElementRange part_of(ElementRange whole, size_t parts, size_t index, size_t grain) {
  size_t each = (whole.count + parts - 1) / parts;
  each = (each + grain - 1) / grain * grain;
  size_t begin = std::min(each * index, whole.count);
  size_t end = std::min(begin + each, whole.count);
  return {whole.first + begin, end - begin};
}

RingPlan make_ring_plan(ElementRange channel, int rank, int nranks, size_t slice_elements) {
  RingPlan plan;
  auto segment = [&](int k) {
    int index = ((rank - k) % nranks + nranks) % nranks;
    return part_of(channel, static_cast<size_t>(nranks), static_cast<size_t>(index), 1);
  };
  int steps = 2 * (nranks - 1);
  if (steps > 0) append_slices(segment(0), slice_elements, false, &plan.send);
  plan.own_sends = plan.send.size();
  for (int k = 0; k < steps; ++k) {
    bool reduce = k < nranks - 1;
    append_slices(segment(k + 1), slice_elements, reduce, &plan.recv);
    if (k + 1 < steps) append_slices(segment(k + 1), slice_elements, reduce, &plan.send);
  }
  return plan;
}

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
