// Sizes of the software HCA's fixed tables. They bound the configuration (model/config.h) and shape
// the memory that processes share (fabric/shared_layout.h), so that a change of one of them is a
// change of the shared layout: raise kLayoutVersion with it.
#pragma once

#include <cstdint>

namespace softhca {

constexpr uint32_t kMaxDevices = 32;
constexpr uint32_t kMaxPorts = 4;  // of a device
constexpr uint32_t kMaxGids = 16;  // of a port
constexpr uint32_t kMaxSge = 16;   // of a work request
// Faults of a process with "at_request", those of its control file included.
constexpr uint32_t kMaxTriggers = 64;
constexpr uint32_t kMaxReads = 16;  // RDMA reads and atomics in progress, of a QP at either end
// LIDs above it are multicast LIDs (IBTA 4.1.3).
constexpr uint16_t kMaxUnicastLid = 0xbfff;
// QPs of a process. A QPN has 24 bits: 10 name the process, 14 its QP.
constexpr uint32_t kQpIndexBits = 14;
constexpr uint32_t kMaxQps = 1u << kQpIndexBits;

}  // namespace softhca
