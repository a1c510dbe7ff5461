// ncclNetPlugin_v8, of NCCL 2.20 and later. New: registrations above 2 GiB, and those of
// a whole device. See nccl_types.h.
#pragma once

#include "plugin/abi/net_v7.h"

namespace gdr::abi {

using ncclNetDeviceHandle_v8_t = ncclNetDeviceHandle_v7_t;

struct ncclNetProperties_v8_t {
  char* name;       // shown in logs, and unique
  char* pciPath;    // absolute sysfs path of the PCI function; null when it has none
  uint64_t guid;    // of the card: all its functions have the same
  int ptrSupport;   // kPtrHost | kPtrCuda | kPtrDmaBuf
  int regIsGlobal;  // 1: a registration is valid for every comm of the device
  int speed;        // Mb/s
  int port;
  float latency;  // microseconds
  int maxComms;
  int maxRecvs;  // buffers of one grouped receive
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
};

using ncclNet_v8_t = NetTableV7<ncclNetProperties_v8_t, size_t>;

static_assert(sizeof(ncclNetProperties_v8_t) == 64);
static_assert(offsetof(ncclNetProperties_v8_t, ptrSupport) == 24);
static_assert(offsetof(ncclNetProperties_v8_t, regIsGlobal) == 28);
static_assert(offsetof(ncclNetProperties_v8_t, netDeviceVersion) == 56);
static_assert(sizeof(ncclNet_v8_t) == 19 * sizeof(void*));

}  // namespace gdr::abi
