// The error counters of ports at one time. They are totals, so that a number says little by itself:
// `doctor --json` writes them down, and `doctor --since` compares the counters with those.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/device/hardware_counters.h"

namespace gdr::tools::doctor {

struct Host;

struct PortCounters {
  std::string device;  // "mlx5_0"
  int port = 1;
  std::string guid;  // of the HCA's node; "": unknown
  // Those about errors, with those of the HCA's PCIe link, and carrier_changes of the network
  // interface.
  transport::HardwareCounters values;
};

struct CounterReading {
  std::string host;     // the name of the machine; "": unknown
  std::string boot_id;  // each boot has another one; "": unknown
  uint64_t time = 0;    // in seconds since 1970; 0: unknown
  uint64_t uptime = 0;  // in seconds; 0: unknown
  std::vector<PortCounters> ports;
};

// Reads them; `host` has its ports already. See hardware_counters.h for how long that may take.
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
