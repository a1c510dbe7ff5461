// Lanes and tickets: how a copy on a GPU is named, and how its completion is found out.
#pragma once

#include <cstdint>

namespace softhca {

// In-order copy streams of one device. QPs are spread over them.
constexpr uint32_t kGpuLanesPerDevice = 8;

// Names one copy: its lane, and its position in that lane, counted from 1.
struct GpuTicket {
  uint32_t lane;
  uint64_t sequence;
};

// How the completion of a lane's copies is observed.
enum class GpuCompletion : uint8_t {
  kStreamWrite,  // the GPU writes the sequence number into host memory (cuStreamWriteValue64)
  kEvent,        // an event is recorded after each copy, and the driver is queried for it
};

}  // namespace softhca
