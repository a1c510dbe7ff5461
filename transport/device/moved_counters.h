// Which hardware counters have moved on the ports that connections use, for the log of what fails.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/device/hardware_counters.h"
#include "transport/device/hca.h"

namespace gdr::transport {

// Reads the counters of each port when a connection first uses it, and again where something has
// failed. A read may block for as long as the firmware of a dead HCA does not answer, so that a
// thread of its own makes it, and whoever asks waits for a limited time. The thread is started for
// the first port that has counters. Thread-safe.
class MovedCounters {
 public:
  using Reader = std::function<HardwareCounters(const std::string& ibdev_path, int port)>;

  // How long read_now() and the end of this object wait for a read.
  static constexpr std::chrono::milliseconds kPatience{300};

  explicit MovedCounters(Reader reader = read_hardware_counters, Now now = Clock::now);
  // A read that blocks goes on; its result is dropped.
  ~MovedCounters();
  MovedCounters(const MovedCounters&) = delete;
  MovedCounters& operator=(const MovedCounters&) = delete;

  // From here on it counts what moves on the port. Once for each port.
  void watch(const Device& device);

  // Has the port read soon: "mlx5_0:1". Does not wait.
  void read_soon(const std::string& port);
  // What has been found since, for each port that was read: "hardware counters of mlx5_0:1 that
  // moved in the last 193 s: local_ack_timeout_err +12, packet_seq_err +3". Each movement is
  // returned once, and a port once a minute. Waits for so long at most for reads that are under
  // way.
  std::vector<std::string> take_found(std::chrono::milliseconds patience = {});
  // Logs them.
  void log_found(std::chrono::milliseconds patience = {});
  // Reads the ports and returns the same for them, but each second at most. Waits for kPatience at
  // most, and returns what is known then.
  std::vector<std::string> read_now(const std::vector<std::string>& ports);
  // Whether all reads that were asked for are made.
  bool is_idle() const;

 private:
  struct State;

  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
};

}  // namespace gdr::transport
