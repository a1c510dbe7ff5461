// What NCCL and a plugin agree on differs between the versions of the network table. This is the
// one place that states the differences: the converters of tools/net, the conformance cases and
// perf read them here. Sources: NCCL's plugins/net/example/nccl/net_v*.h for the layouts,
// src/plugin/net/net_v*.cc for what an older table cannot carry, src/transport/net.cc for the
// calls.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>

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
  int max_merged_devices = 0;     // devices of a virtual one; 0: the table has no makeVDevice
  bool rails_and_planes = false;  // getProperties reports them
};

inline constexpr size_t kNoLimit = SIZE_MAX;

// All versions that the tools drive, the oldest first.
inline constexpr std::array<Contract, 7> kContracts{{
    {.version = 6,
     .first_nccl = "2.13",
     .max_requests = abi::kMaxRequestsV6,
     .largest_message = abi::kAssumedP2pBytes,
     .largest_registration = INT_MAX},
    {.version = 7,
     .first_nccl = "2.19",
     .max_requests = abi::kMaxRequests,
     .largest_message = abi::kAssumedP2pBytes,
     .largest_registration = INT_MAX},
    {.version = 8,
     .first_nccl = "2.20",
     .max_requests = abi::kMaxRequests,
     .largest_message = abi::kAssumedP2pBytes,
     .largest_registration = kNoLimit},
    {.version = 9,
     .first_nccl = "2.24",
     .max_requests = abi::kMaxRequests,
     .largest_message = abi::kMaxNetBytes,
     .largest_registration = kNoLimit,
     .optional_receive_completion = true,
     .max_merged_devices = abi::kMaxMergedDevicesV9},
    {.version = 10,
     .first_nccl = "2.26",
     .max_requests = abi::kMaxRequests,
     .largest_message = abi::kMaxNetBytes,
     .largest_registration = kNoLimit,
     .optional_receive_completion = true,
     .traffic_class = true,
     .profiler = true,
     .max_merged_devices = abi::kMaxMergedDevicesV9},
    {.version = 11,
     .first_nccl = "2.28",
     .max_requests = abi::kMaxRequests,
     .largest_message = abi::kMaxNetBytes,
     .largest_registration = kNoLimit,
     .optional_receive_completion = true,
     .traffic_class = true,
     .profiler = true,
     .contexts = true,
     .max_merged_devices = abi::kMaxMergedDevicesV9},
    {.version = 12,
     .first_nccl = "2.30",
     .max_requests = abi::kMaxRequests,
     .largest_message = abi::kMaxNetBytes,
     .largest_registration = kNoLimit,
     .optional_receive_completion = true,
     .traffic_class = true,
     .profiler = true,
     .contexts = true,
     .max_merged_devices = abi::kMaxMergedDevices,
     .rails_and_planes = true},
}};

inline constexpr int kOldestTable = kContracts.front().version;
inline constexpr int kNewestTable = kContracts.back().version;

// The version must be within kOldestTable and kNewestTable.
constexpr const Contract& contract_of(int version) {
  return kContracts[static_cast<size_t>(version - kOldestTable)];
}

// The entries of a table.
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
  NetEntry entry;
  const char* name;  // NCCL's
  int since;         // the first version that has the entry
  bool required;     // NCCL calls it without a look whether it is null
};

// All entries in the order of the newest table.
std::span<const EntryFacts> net_entries();

}  // namespace gdr::tools
