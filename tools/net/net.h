// A plugin's network table as the tools see it: always the newest one, whatever version the plugin
// has. A table of an older version is converted as NCCL's shims do (src/plugin/net/net_v*.cc), and
// what such a table cannot carry is documented at each type and call. Contract (contract.h) has the
// differences as data.
//
// Calls go through unchecked: a null entry that NCCL requires crashes here as in NCCL. Each call
// returns the plugin's own result, but for sizes that the table's types cannot hold: those never
// reach the plugin, log a warning and return ncclInternalError, as in NCCL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tools/net/contract.h"

namespace gdr::tools {

// What a communicator passes to init.
struct InitArguments {
  abi::ncclDebugLogger_t logger = nullptr;
  uint64_t id = 0;                                  // reaches v11 and later
  int traffic_class = abi::kTrafficClassUndefined;  // reaches v10 and later; v10 in connect
  abi::ncclProfilerCallback_t profiler = nullptr;   // reaches v10 and later
};

// The devices of a virtual one.
struct MergedDevices {
  int count = 0;
  std::array<int, abi::kMaxMergedDevices> devices{};  // the first `count` are meaningful
};

// What getProperties reports. The initial values are those that NCCL assumes of a table without the
// field.
struct NetProperties {
  const char* name = nullptr;
  const char* pci_path = nullptr;  // null when the device has none
  uint64_t guid = 0;
  int pointer_support = 0;  // abi::kPtrHost | kPtrCuda | kPtrDmaBuf
  int reg_is_global = 0;    // from v8
  int force_flush = 0;      // from v9
  int speed_mbps = 0;
  int port = 0;
  float latency_us = 0;
  int max_comms = 0;
  int max_recvs = 0;
  abi::ncclNetDeviceType device_type = abi::kDeviceHost;  // from v7
  int device_version = abi::kNetDeviceInvalidVersion;     // from v7
  MergedDevices merged;                                   // from v9; before: the device itself
  size_t max_p2p_bytes = abi::kAssumedP2pBytes;           // from v9
  size_t max_coll_bytes = abi::kAssumedCollBytes;         // from v9
  int max_multi_request_size = 1;                         // from v11
  int16_t rail = abi::kNetIdUndefined;                    // from v12
  int16_t plane = abi::kNetIdUndefined;                   // from v12
};

// How many peers and connections NCCL is going to use at once.
struct PeerHints {
  int32_t max_concurrent_peers = abi::kNetAttrUndefined;
  int32_t min_concurrent_peers = abi::kNetAttrUndefined;
  int32_t max_flows_per_peer = abi::kNetAttrUndefined;
  int32_t min_flows_per_peer = abi::kNetAttrUndefined;

  bool operator==(const PeerHints&) const = default;
};

// What setNetAttr passes. The last three have one bit per collective, algorithm and protocol.
struct NetAttributes {
  PeerHints send;
  PeerHints receive;
  uint32_t op = 0;
  uint32_t algo = 0;
  uint32_t proto = 0;

  bool operator==(const NetAttributes&) const = default;
};

// NCCL_NET_OPTIONAL_RECV_COMPLETION: what *request is on entry to irecv where NCCL needs no
// completion. A plugin overwrites it. Tables before v9 never see it: irecv passes null instead.
inline void* const kOptionalCompletion = reinterpret_cast<void*>(abi::kOptionalReceiveCompletion);

class Net {
 public:
  virtual ~Net() = default;

  virtual int version() const = 0;
  Contract contract() const { return contract_of(version()); }
  virtual const char* name() const = 0;
  // True where the table has the entry and it is not null.
  virtual bool has(NetEntry entry) const = 0;

  // Calls the plugin's init each time; NCCL does so once per communicator from v11 and counts
  // communicators before. *context is for listen, connect, set_net_attr and finalize. It is the
  // plugin's own from v11 and of this class before; finalize ends it in both cases, but reaches the
  // plugin only from v11.
  virtual abi::ncclResult_t init(const InitArguments& settings, void** context) = 0;
  virtual abi::ncclResult_t finalize(void* context) = 0;

  virtual abi::ncclResult_t devices(int* count) = 0;
  // Leaves *properties alone after an error.
  virtual abi::ncclResult_t properties(int dev, NetProperties* properties) = 0;

  virtual abi::ncclResult_t listen(void* context, int dev, void* handle, void** listen_comm) = 0;
  virtual abi::ncclResult_t connect(void* context, int dev, void* handle, void** send_comm) = 0;
  virtual abi::ncclResult_t accept(void* listen_comm, void** recv_comm) = 0;

  // `bytes`: at most contract().largest_registration.
  virtual abi::ncclResult_t reg_mr(void* comm, void* data, size_t bytes, int type,
                                   void** mhandle) = 0;
  virtual abi::ncclResult_t reg_mr_dmabuf(void* comm, void* data, size_t bytes, int type,
                                          uint64_t offset, int fd, void** mhandle) = 0;
  virtual abi::ncclResult_t dereg_mr(void* comm, void* mhandle) = 0;

  // `bytes` and each of sizes[]: at most contract().largest_message. A phandle is what the plugin
  // passes to the profiler for events of this request; it reaches v10 and later. `phandles` has n
  // entries and is not null.
  virtual abi::ncclResult_t isend(void* send_comm, void* data, size_t bytes, int tag, void* mhandle,
                                  void* phandle, void** request) = 0;
  virtual abi::ncclResult_t irecv(void* recv_comm, int n, void** data, size_t* sizes, int* tags,
                                  void** mhandles, void** phandles, void** request) = 0;
  // The sizes of iflush and test are ints in every version.
  virtual abi::ncclResult_t iflush(void* recv_comm, int n, void** data, int* sizes, void** mhandles,
                                   void** request) = 0;
  virtual abi::ncclResult_t test(void* request, int* done, int* sizes) = 0;

  virtual abi::ncclResult_t close_send(void* send_comm) = 0;
  virtual abi::ncclResult_t close_recv(void* recv_comm) = 0;
  virtual abi::ncclResult_t close_listen(void* listen_comm) = 0;

  // These two require has() of their entry; without it they return ncclInternalError.
  // merged.count: at most contract().max_merged_devices.
  virtual abi::ncclResult_t make_v_device(int* dev, const MergedDevices& merged) = 0;
  virtual abi::ncclResult_t set_net_attr(void* context, const NetAttributes& attributes) = 0;
};

// Returns the converter over a plugin's ncclNet_v<version>_t, which outlives the result. The
// version must be within kOldestTable and kNewestTable.
std::unique_ptr<Net> make_net(int version, const void* table);

// Returns a text for people: "success", "system error (2)".
std::string describe(abi::ncclResult_t result);

// The tool is NCCL's library to a plugin, which may ask it for its release: sets what
// ncclGetVersion() returns in this process, 22605 for 2.26.5. Before that it returns the newest
// release whose rules the plugin knows. To be called before the plugin is loaded.
void report_nccl_version(int version);

}  // namespace gdr::tools
