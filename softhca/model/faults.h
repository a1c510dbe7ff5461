// Faults of the configuration: decides when each happens, and keeps the link models, whose rate a
// fault may change.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "softhca/model/config.h"
#include "softhca/model/link_model.h"

namespace softhca {

// What a fault acts on. The model knows when a fault happens; the implementation, which owns ports
// and QPs, knows how. Calls come from application threads and from the engine.
class FaultTarget {
 public:
  virtual void set_port_state(uint32_t device, uint32_t port, ibv_port_state state) = 0;
  // Moves every QP of the port to ERROR, as a failing device does.
  virtual void fail_qps(uint32_t device, uint32_t port) = 0;

 protected:
  ~FaultTarget() = default;
};

// Devices are indices into Config::devices, ports count from 1.
class Faults {
 public:
  // `target` is not called before begin().
  Faults(const Config& config, FaultTarget& target);

  // Starts the clock of the faults with "at_s", and triggers those of 0 s before it returns.
  // Returns true at the first call if there are faults: serve() has to be called from then on.
  bool begin();
  LinkModel& link(uint32_t device, uint32_t port) { return *links_[device][port - 1]; }

  // Counts bytes that requests of a port have moved, and triggers faults with "after_bytes".
  void moved(uint32_t device, uint32_t port, uint64_t bytes);
  // Returns 0, or the errno with which a registration on the device has to fail now.
  int registration_error(uint32_t device) const;

  // Triggers what is due. Returns the time of the next fault (CLOCK_MONOTONIC ns), UINT64_MAX when
  // none is left.
  uint64_t serve();

 private:
  struct Fault {
    FaultConfig config;
    uint32_t device;
    std::atomic<uint64_t> bytes{0};
    std::atomic<bool> triggered{false};
  };
  // Does nothing after the first call for a fault.
  void trigger(Fault& fault);
  // When a fault with "at_s" is due, for a clock that was started at `begun_ns`.
  static uint64_t due_ns(const Fault& fault, uint64_t begun_ns) {
    return begun_ns + static_cast<uint64_t>(fault.config.at_s * 1e9);
  }

  FaultTarget& target_;
  std::atomic<uint64_t> begun_ns_{0};
  bool count_bytes_ = false;
  std::vector<std::unique_ptr<Fault>> faults_;
  std::vector<std::vector<std::unique_ptr<LinkModel>>> links_;  // by device and port
};

}  // namespace softhca
