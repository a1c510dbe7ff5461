// Lists of contiguous memory ranges: the two ends of a transfer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "softhca/model/limits.h"

namespace softhca {

struct Segment {
  uint64_t address;  // in the address space of the process that owns the memory
  uint64_t bytes;
  int32_t gpu;  // CUDA device, or -1 for host memory
};

struct SegmentList {
  uint32_t count = 0;
  int32_t gpu = -1;  // of the last segment in GPU memory, -1 when all are host memory
  uint64_t bytes = 0;
  Segment items[kMaxSge];

  void clear() {
    count = 0;
    gpu = -1;
    bytes = 0;
  }
  // Appends a segment; an empty one is left out.
  void add(uint64_t address, uint64_t length, int32_t device) {
    if (length == 0) return;
    items[count++] = {address, length, device};
    bytes += length;
    if (device >= 0) gpu = device;
  }
  // Shortens the list to its first `length` bytes.
  void truncate(uint64_t length);
};

// Walks two lists in pieces that are contiguous in both, and calls copy(in a, in b, bytes) with
// void pointers for each. Stops at the end of the shorter list.
template <class Copy>
void for_each_piece(const SegmentList& a, const SegmentList& b, Copy copy) {
  uint32_t i = 0, j = 0;
  uint64_t a_done = 0, b_done = 0;
  while (i < a.count && j < b.count) {
    uint64_t bytes = std::min(a.items[i].bytes - a_done, b.items[j].bytes - b_done);
    copy(reinterpret_cast<void*>(a.items[i].address + a_done),
         reinterpret_cast<void*>(b.items[j].address + b_done), bytes);
    a_done += bytes;
    b_done += bytes;
    if (a_done == a.items[i].bytes) ++i, a_done = 0;
    if (b_done == b.items[j].bytes) ++j, b_done = 0;
  }
}

}  // namespace softhca
