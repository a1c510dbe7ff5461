// The plugin of one process: its devices, how they were chosen, and the transport over them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/communicator.h"
#include "plugin/discovery/discovery.h"
#include "plugin/net_devices.h"
#include "plugin/rail_warnings.h"
#include "plugin/stats_writer.h"
#include "topology/live/rail_decision.h"
#include "transport/transport.h"

namespace gdr::plugin {

// All state of the plugin; one per process, created by the first init().
struct Plugin {
  int table_version = 0;        // of the table whose init created this
  uint32_t generation = 0;      // process_fds::generation() of the process that it belongs to
  bool flushes_always = false;  // NCCL_NET_FORCE_FLUSH
  bool merges = true;           // NCCL_IB_MERGE_NICS
  std::string profiler;         // NCCL_PROFILER_PLUGIN
  std::unique_ptr<transport::Transport> transport;  // null with NCCL_IB_DISABLE
  topology::RailDecision decision;
  std::vector<discovery::SkippedPort> skipped;  // each port that is not a device
  std::unique_ptr<NetDevices> devices = std::make_unique<NetDevices>();
  std::vector<std::vector<size_t>> standby;  // the standby rails of port i; empty without failover
  std::vector<std::string> failover;         // the same for the log
  OpenCommunicators communicators;
  std::unique_ptr<RailWarnings> warnings;  // null if `transport` is null

  std::unique_ptr<StatsWriter> stats;  // null without GDR_NCCL_STATS_DIR; reads `transport`
};

// Reads the process environment, discovers the HCAs, decides the rails and starts the transport,
// for NCCL's table of that version. Logs findings about the environment;
// the caller logs the rest, log_choice(). Fails with kSystem where the machine has no usable RDMA
// device, and NCCL then continues with its next transport.
Result<std::unique_ptr<Plugin>> create_plugin(int table_version);

// Logs what was chosen: version, devices, rails, what was not used and why. Tools read these lines.
void log_choice(const Plugin& plugin);

}  // namespace gdr::plugin
