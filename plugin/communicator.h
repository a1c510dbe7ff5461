// A communicator of NCCL, as far as the plugin knows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/abi/net_v11.h"
#include "transport/pairs/connection_options.h"

namespace gdr::plugin {

// The context of the tables that have one for each communicator (v11 and later), made by init and
// destroyed by finalize.
struct Communicator {
  // The communicator's traffic class, which nobody here reads. NCCL's host RMA passes the network
  // plugin's context to its own back end (src/rma/rma_proxy.cc), which takes its traffic class from
  // there (2.29 and later) and writes another (2.30; ncclIbSetTrafficClass in
  // src/transport/net_ib/connect.cc).
  int32_t nccls_traffic_class = abi::kTrafficClassUndefined;
  uint64_t id = 0;                          // NCCL's commId, the same on all ranks
  abi::ncclDebugLogger_t logger = nullptr;  // of the NCCL that opened it
  // Of its connections; they share it.
  std::shared_ptr<const transport::ConnectionOptions> connection;
  // The same with NCCL's profiler as the observer. Only where NCCL may have loaded one
  // (profiler_may_be_loaded): a call for each message that finds none takes longer than all else
  // that the observer costs.
  std::shared_ptr<const transport::ConnectionOptions> profiled_connection;
};
static_assert(offsetof(Communicator, nccls_traffic_class) == 0);

// "communicator 0x1234abcd".
std::string to_string(const Communicator& communicator);

// What NCCL passes for a communicator.
struct CommunicatorSettings {
  int table_version = 0;  // of NCCL's network table
  uint64_t id = 0;
  // The user's, ncclConfig_t::trafficClass; abi::kTrafficClassUndefined where it is not chosen.
  int traffic_class = abi::kTrafficClassUndefined;
  abi::ncclProfilerCallback_t profiler = nullptr;
};

// Returns a communicator whose connections have the options `base`, with the communicator's traffic
// class and service level where the user has set none for the process. NCCL's own transport takes
// both from the same number (ncclIbConnectImpl in src/transport/net_ib/connect.cc); a service level
// has 4 bits. A traffic class above 255 is logged and ignored.
Communicator make_communicator(const transport::ConnectionOptions& base,
                               const CommunicatorSettings& settings);

// The communicators that v11 and v12 have opened. NCCL 2.28.3 goes on using the context of a
// communicator that it has finalized, where another one shares its resources (ncclCommSplit with
// splitShare), so contexts are destroyed only when none is open. Thread-safe.
class OpenCommunicators {
 public:
  // Returns the context, which is valid at least until it is closed.
  Communicator* open(Communicator communicator);
  // Returns false where no such context is open.
  bool close(const void* context);
  // Whether the NCCL with that logger has one open.
  bool has_one_of(abi::ncclDebugLogger_t logger);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Communicator>> open_;
  std::vector<std::unique_ptr<Communicator>> closed_;
};

}  // namespace gdr::plugin
