// Which hardware counters have moved on the ports that connections use, for the log of what fails.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transport/device/hardware_counters.h"
#include "transport/device/hca.h"

namespace gdr::transport {

// Thread-safe. watch() and take() block for as long as the firmware of an HCA does not answer, with
// no lock held.
class MovedCounters {
 public:
  explicit MovedCounters(Now now = Clock::now) : now_(std::move(now)) {}

  // From here on it counts what moves on the port. Only the first call for a port reads.
  void watch(const Device& device);
  // Something has failed on a port, "mlx5_0:1": the next take_suspected() returns it.
  void suspect(const std::string& port);
  std::vector<std::string> take_suspected();
  // Returns what has moved on a port, "mlx5_0:1", since it is watched or since the last text:
  // "hardware counters of mlx5_0:1 that moved in the last 193 s: local_ack_timeout_err +12,
  // packet_seq_err +3". "" where nothing has, until `pause` after the last text, and for a second
  // after a read: many connections of a port fail at once.
  std::string take(const std::string& port, Clock::duration pause);

 private:
  struct Port {
    std::string ibdev_path;
    int number;
    HardwareCounters last;    // at the last text
    Clock::time_point since;  // of that
    bool has_text = false;    // since it is watched
    Clock::time_point read_at{};
    bool suspected = false;  // since take_suspected()
  };

  const Now now_;
  std::mutex mutex_;
  std::map<std::string, Port> ports_;  // guarded by mutex_; no port is ever removed
};

}  // namespace gdr::transport
