#include "tools/perf/ring_plan.h"

#include <algorithm>

namespace gdr::tools {
namespace {
void append_slices(ElementRange segment, size_t slice_elements, bool reduce,
                   std::vector<Slice>* out) {
  for (size_t done = 0; done < segment.count; done += slice_elements) {
    out->push_back({segment.first + done, std::min(slice_elements, segment.count - done), reduce});
  }
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

}  // namespace gdr::tools
