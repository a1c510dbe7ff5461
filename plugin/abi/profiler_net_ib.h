// How NCCL's own IB transport describes a work request to a profiler. Profilers know the layout by
// its plugin id. Written for this project after NCCL's src/include/plugin/profiler/net_ib_v1.h and
// src/include/plugin/nccl_profiler.h; names and values are NCCL's. Builds that name NCCL's sources
// (NCCL_SOURCE_DIR) check it against them in check_against_nccl.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::abi {

inline constexpr int64_t kProfilerNetTypeIb = 1 << 16;  // NCCL_PROFILER_NET_TYPE_IB
inline constexpr int64_t kProfilerNetIbVersion = 1;     // NCCL_PROFILER_NET_IB_VER
inline constexpr uint8_t kProfileQp = 1 << 0;           // ncclProfileQp

// `data` of a start whose plugin_id is kProfilerNetTypeIb | kProfilerNetIbVersion.
struct ncclProfilerNetIbDescr_v1_t {
  uint8_t type;  // kProfileQp
  struct Qp {
    int device;  // index of the device within the connection
    uint64_t wr_id;
    int opcode;
    int qpNum;
    size_t length;  // bytes
  } qp;
};

static_assert(sizeof(ncclProfilerNetIbDescr_v1_t) == 40);
static_assert(offsetof(ncclProfilerNetIbDescr_v1_t, qp) == 8);
static_assert(offsetof(ncclProfilerNetIbDescr_v1_t, qp.wr_id) == 16);
static_assert(offsetof(ncclProfilerNetIbDescr_v1_t, qp.opcode) == 24);
static_assert(offsetof(ncclProfilerNetIbDescr_v1_t, qp.qpNum) == 28);
static_assert(offsetof(ncclProfilerNetIbDescr_v1_t, qp.length) == 32);

}  // namespace gdr::abi
