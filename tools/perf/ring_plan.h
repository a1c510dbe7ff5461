// The messages and the sums of a ring all-reduce of a vector. Pure arithmetic.
//
// The elements [first, first + count) of a channel are divided into as many segments as there are
// ranks. In step k = 0 .. 2(n-1)-1 a rank sends segment (rank - k) mod n to the next rank and
// receives segment (rank - k - 1) mod n from the previous one: first n-1 steps of reduce-scatter,
// then n-1 of all-gather. A segment is sent in slices; both ends skip empty ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gdr::tools {

struct Slice {
  size_t first = 0;  // element
  size_t count = 0;
  bool reduce = false;  // add to this rank's own elements instead of replacing them
};

struct RingPlan {
  // send[j] with j < own_sends comes from this rank's own segment. Every other send[j] forwards
  // recv[j - own_sends] and must wait until that one has been received.
  std::vector<Slice> send;
  std::vector<Slice> recv;
  size_t own_sends = 0;
};

struct ElementRange {
  size_t first = 0;
  size_t count = 0;
};

// Returns part `index` of `parts` nearly equal parts whose borders are multiples of `grain`
// elements.
ElementRange part_of(ElementRange whole, size_t parts, size_t index, size_t grain);

// Plans one channel at one rank, with slices of at most slice_elements.
RingPlan make_ring_plan(ElementRange channel, int rank, int nranks, size_t slice_elements);

// The elements are floats.
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
