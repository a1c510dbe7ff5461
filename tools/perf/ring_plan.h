// Which messages a ring all-reduce makes of a vector. Pure arithmetic.
//
// The elements [first, first + count) of a channel are cut into as many segments as there are
// ranks. In step k = 0 .. 2(n-1)-1 a rank sends segment (rank - k) mod n to the next rank and
// receives segment (rank - k - 1) mod n from the previous one: first n-1 steps of reduce-scatter,
// then n-1 of all-gather. A segment goes in slices; empty ones are left out at both ends.
#pragma once

#include <cstddef>
#include <vector>

namespace gdr::tools {

struct Slice {
  size_t first = 0;  // element
  size_t count = 0;
  bool reduce = false;  // to be added to this rank's own elements, not to replace them
};

struct RingPlan {
  // send[j] for j < own_sends is this rank's own segment; send[j] otherwise forwards
  // recv[j - own_sends], so it must wait for that one.
  std::vector<Slice> send;
  std::vector<Slice> recv;
  size_t own_sends = 0;
};

struct ElementRange {
  size_t first = 0;
  size_t count = 0;
};

// Part `index` of `parts` nearly equal parts; borders are multiples of `grain` elements.
ElementRange part_of(ElementRange whole, size_t parts, size_t index, size_t grain);

RingPlan make_ring_plan(ElementRange channel, int rank, int nranks, size_t slice_elements);

}  // namespace gdr::tools
