// What NCCL and a plugin agree on differs between the versions of the network table. This is the
// one place that states the differences: the converters of tools/net, the conformance cases and
// perf read them here. Sources: NCCL's plugins/net/example/nccl/net_v*.h for the layouts,
// src/plugin/net/net_v*.cc for what an older table cannot carry, src/transport/net.cc for the
// calls.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "plugin/abi/nccl_types.h"

namespace gdr::tools {

struct Contract {
  int version = 0;
  const char* first_nccl = "";      // the first release that loads this version
  int max_requests = 0;             // requests that may be outstanding on one comm
  size_t largest_message = 0;       // bytes of one isend and of one buffer of irecv
  size_t largest_registration = 0;  // bytes of one regMr; regMrDmaBuf takes any size
  // *request may be 0x1 on entry to irecv (NCCL_NET_OPTIONAL_RECV_COMPLETION); otherwise it is
  // null.
  bool optional_receive_completion = false;
  bool traffic_class = false;  // connect (v10) or init (v11 and later) receives the communicator's
  bool profiler = false;  // init receives NCCL's profiler callback, isend and irecv their phandle
  // init is called for each communicator and returns a context, which listen, connect, setNetAttr
  // and finalize receive. Otherwise NCCL calls init for the first communicator only, and again
  // after the last one has ended.
  bool contexts = false;
  int max_merged_devices = 0;  // devices of a virtual one; 0: the table has no makeVDevice
};

inline constexpr size_t kNoLimit = SIZE_MAX;

inline constexpr int kOldestTable = 6;
inline constexpr int kNewestTable = 12;

// Returns what a version from kOldestTable to kNewestTable agrees on.
constexpr Contract contract_of(int version) {
  constexpr const char* kFirstNccl[] = {"2.13", "2.19", "2.20", "2.24", "2.26", "2.28", "2.30"};
  const int merged = version >= 12 ? abi::kMaxMergedDevices : abi::kMaxMergedDevicesV9;
  return {.version = version,
          .first_nccl = kFirstNccl[version - kOldestTable],
          .max_requests = version >= 7 ? abi::kMaxRequests : abi::kMaxRequestsV6,
          .largest_message = version >= 9 ? abi::kMaxNetBytes : abi::kAssumedP2pBytes,
          .largest_registration = version >= 8 ? kNoLimit : INT_MAX,
          .optional_receive_completion = version >= 9,
          .traffic_class = version >= 10,
          .profiler = version >= 10,
          .contexts = version >= 11,
          .max_merged_devices = version >= 9 ? merged : 0};
}

// The entries of a table, in the order of their slots: the first one follows the name. Later
// versions have them behind those of earlier ones.
enum class NetEntry : uint8_t {
  kInit,
  kDevices,
  kGetProperties,
  kListen,
  kConnect,
  kAccept,
  kRegMr,
  kRegMrDmaBuf,
  kDeregMr,
  kIsend,
  kIrecv,
  kIflush,
  kTest,
  kCloseSend,
  kCloseRecv,
  kCloseListen,
  kGetDeviceMr,
  kIrecvConsumed,
  kMakeVDevice,
  kFinalize,
  kSetNetAttr,
};

struct EntryFacts {
  const char* name;      // NCCL's
  int since = 6;         // the first version that has the entry
  bool required = true;  // NCCL calls it without a look whether it is null
};

// All entries, by NetEntry. NCCL calls regMrDmaBuf only where ptrSupport has DMABUF
// (src/transport/net.cc), and getDeviceMr only for device offload.
inline constexpr EntryFacts kNetEntries[] = {
    {"init"},
    {"devices"},
    {"getProperties"},
    {"listen"},
    {"connect"},
    {"accept"},
    {"regMr"},
    {"regMrDmaBuf", 6, false},
    {"deregMr"},
    {"isend"},
    {"irecv"},
    {"iflush"},
    {"test"},
    {"closeSend"},
    {"closeRecv"},
    {"closeListen"},
    {"getDeviceMr", 7, false},
    {"irecvConsumed", 7, false},
    {"makeVDevice", 9, false},
    {"finalize", 11},
    {"setNetAttr", 11, false},
};

}  // namespace gdr::tools
