// ncclNetPlugin_v12, of NCCL 2.30 and later. New: rails and planes, and up to 8 devices
// in a virtual one. See nccl_types.h.
#pragma once

#include "plugin/abi/net_v11.h"

namespace gdr::abi {

using ncclNetCommConfig_v12_t = ncclNetCommConfig_v11_t;
using ncclNetAttr_v12_t = ncclNetAttr_v11_t;

struct ncclNetVDeviceProps_v12_t {
  int ndevs;
  int devs[kMaxMergedDevices];
};

struct ncclNetProperties_v12_t {
  char* name;       // shown in logs, and unique
  char* pciPath;    // absolute sysfs path of the PCI function; null when it has none
  uint64_t guid;    // of the card: all its functions have the same
  int ptrSupport;   // kPtrHost | kPtrCuda | kPtrDmaBuf
  int regIsGlobal;  // 1: a registration is valid for every comm of the device
  int forceFlush;   // 1: iflush is needed after each receive, on every generation of GPU
  int speed;        // Mb/s
  int port;
  float latency;  // microseconds
  int maxComms;
  int maxRecvs;  // buffers of one grouped receive
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_v12_t vProps;
  size_t maxP2pBytes;       // of one isend or irecv buffer
  size_t maxCollBytes;      // of one operation of a collective network
  int maxMultiRequestSize;  // 1: no requests that stand for several
  int16_t railId;           // kNetIdUndefined: unknown
  int16_t planeId;
};

using ncclNet_v12_t = NetTableV11<ncclNetProperties_v12_t, ncclNetVDeviceProps_v12_t>;

static_assert(sizeof(ncclNetProperties_v12_t) == 128);
static_assert(offsetof(ncclNetProperties_v12_t, maxP2pBytes) == 104);
static_assert(offsetof(ncclNetProperties_v12_t, railId) == 124);
static_assert(offsetof(ncclNetProperties_v12_t, planeId) == 126);
static_assert(sizeof(ncclNet_v12_t) == 22 * sizeof(void*));

}  // namespace gdr::abi
