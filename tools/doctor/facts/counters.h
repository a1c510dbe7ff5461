// The error counters of ports at one time. They are totals, so that a number says little by itself:
// `doctor --json` writes them down, and `doctor --since` compares the counters with those.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gdr::tools::doctor {

struct Host;

// By name: {"local_ack_timeout_err", 3}.
using HardwareCounters = std::map<std::string, uint64_t>;

// Reads those of <ibdev_path>/ports/<port>/counters and hw_counters that are about errors; Linux
// documents them in Documentation/ABI/stable/sysfs-class-infiniband. ibdev_path: of the HCA
// (ibv_device::ibdev_path). What cannot be read, or is not a number, is left out. For many counters
// the kernel asks the HCA's firmware, and waits for its answer: a call may block for as long as the
// driver takes to give a dead HCA up.
HardwareCounters read_hardware_counters(const std::string& ibdev_path, int port);

// Whether a counter that moves hints at a fault. Drivers name their counters as they like: mlx5 has
// "packet_seq_err", rxe "rcvd_seq_err", bnxt_re "seq_err_naks_rcvd", irdma "RetransSegs" and efa
// "retrans_timeout_events". So the name decides, by the words in it that mean errors. Traffic has
// none of these, nor have the signs of congestion ("np_cnp_sent", "port_xmit_wait"), which a
// healthy RoCE network shows, too. Left out are further those that follow from moving a queue pair
// to ERROR, as each connection does at its end (mlx5's "req_cqe_flush_error"), dropped management
// packets ("VL15_dropped") and delayed acknowledgements (rxe's "ack_deferred").
bool is_symptom(std::string_view name);

struct PortCounters {
  std::string device;  // "mlx5_0"
  int port = 1;
  std::string guid;  // of the HCA's node; "": unknown
  // Those about errors, with those of the HCA's PCIe link, and carrier_changes of the network
  // interface.
  HardwareCounters values;
};

struct CounterReading {
  std::string host;     // the name of the machine; "": unknown
  std::string boot_id;  // each boot has another one; "": unknown
  uint64_t time = 0;    // in seconds since 1970; 0: unknown
  uint64_t uptime = 0;  // in seconds; 0: unknown
  std::vector<PortCounters> ports;
};

// Reads them; `host` has its ports already. See read_hardware_counters() for how long that may
// take.
CounterReading read_counters(const Host& host);

// Reads the counters of the machine that this process runs on again, after a second.
void watch_counters(Host* host);

// Returns the same port in another reading, which may be of another card; null where there is none.
const PortCounters* same_port(const CounterReading& reading, const PortCounters& port);

nlohmann::json json_of(const CounterReading& reading);

// Reads the counters in an earlier report of `doctor --json`. Fails with kInvalidArgument, and a
// text that names the file, where it is something else, of another machine, or not older than
// `now`. Of another boot it has no ports, as their counters began again since.
Result<CounterReading> read_earlier_counters(const std::string& file, const CounterReading& now);

}  // namespace gdr::tools::doctor
