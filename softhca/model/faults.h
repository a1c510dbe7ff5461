// Faults of the configuration: decides when each happens, and keeps the link models, whose rate a
// fault may change.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
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
  // Each reports the event of its change to the device's contexts.
  virtual void set_gid(uint32_t device, uint32_t port, uint32_t index, const GidEntry& entry) = 0;
  virtual void set_lid(uint32_t device, uint32_t port, uint16_t lid) = 0;
  virtual void report(uint32_t device, uint32_t port, ibv_event_type event) = 0;
  // Ends the device for the rest of the process's life. `silent`: no request completes any more.
  virtual void fail_device(uint32_t device, bool removed, bool silent) = 0;
  // Makes the engine call Faults::serve() soon.
  virtual void wake() = 0;

 protected:
  ~FaultTarget() = default;
};

// Devices are indices into Config::devices, ports count from 1.
class Faults {
 public:
  // `target` is not called before begin(). `triggers` becomes the table of the faults with
  // "at_request". `config` has to stay.
  Faults(const Config& config, FaultTarget& target, TriggerTable& triggers);

  // Starts the clock of the faults with "at_s", and triggers those of 0 s before it returns.
  // Returns true at the first call if there are faults: serve() has to be called from then on.
  bool begin();
  LinkModel& link(uint32_t device, uint32_t port) { return *links_[device][port - 1]; }

  // Counts one request of a port and the bytes that it has moved, and triggers faults with
  // "after_bytes" and "after_ops".
  void moved(uint32_t device, uint32_t port, uint64_t bytes);
  // Returns 0, or the errno with which a registration on the device has to fail now.
  int registration_error(uint32_t device);
  // Returns 0, or the errno with which a valid ibv_modify_qp of a QP of the port to the state `to`
  // has to fail, and counts that failure.
  int modify_error(uint32_t device, uint32_t port, ibv_qp_state to);
  // Returns 0, or by how many ns the acknowledgement of a request that the port delivers
  // is late: UINT64_MAX when it is lost. Counts the request.
  uint64_t ack_delay_ns(uint32_t device, uint32_t port, const RequestMoment& request);
  // Whether a packet of so many bytes, the largest of a request of this process, is lost now.
  bool loses_packet(uint32_t device, uint32_t port, uint32_t bytes);
  // Returns once the firmware of the device answers to ibv_query_port.
  void await_port_query(uint32_t device);
  // Triggers the faults of this process whose event has been met. To be called without a lock of a
  // QP.
  void serve_events();

  // Triggers what is due. Returns the time of the next fault (CLOCK_MONOTONIC ns), UINT64_MAX when
  // none is left.
  uint64_t serve();

 private:
  struct Fault {
    FaultConfig config;
    uint32_t device;
    double device_rate_gbps = 0;
    uint64_t since_ns = 0;            // "at_s" counts from here; 0: from begin()
    EventTrigger* trigger = nullptr;  // with "at_request"
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> ops{0};
    std::atomic<uint32_t> met{0};  // by calls or requests, up to `count`
    std::atomic<bool> triggered{false};
    std::atomic<bool> reported{false};
    // Of a flap: when the port changes its state next, 0 for no more, and how often it still does.
    std::atomic<uint64_t> next_step_ns{0};
    uint32_t steps_left = 0;
  };
  // Returns false when there is no room for it.
  bool add(const FaultConfig& config, uint64_t since_ns);
  EventTrigger* add_trigger(const FaultConfig& fault, uint32_t device);
  std::span<const std::unique_ptr<Fault>> all() const {
    return {faults_.data(), fault_count_.load(std::memory_order_acquire)};
  }
  // Adds the faults that were appended to the file since the last call.
  void read_file();
  // Does nothing after the first call for a fault.
  void trigger(Fault& fault);
  // Prints that a fault happens, once, where the configuration asks for it. `request`: at which
  // one, or null.
  void report(Fault& fault, const RequestMoment* request);
  void start_flap(Fault& fault);
  // Makes the step that is due. Returns the time of the next one, UINT64_MAX for none.
  uint64_t step_flap(Fault& fault);
  // Returns true once the fault's time has come.
  static bool begun(const Fault& fault, uint64_t begun_ns);
  // Takes one of the calls or requests that a fault is limited to. False when none is left.
  static bool take(Fault& fault);
  // When a fault with "at_s" is due, for a clock that was started at `begun_ns`.
  static uint64_t due_ns(const Fault& fault, uint64_t begun_ns) {
    uint64_t since = fault.since_ns != 0 ? fault.since_ns : begun_ns;
    return since + static_cast<uint64_t>(fault.config.at_s * 1e9);
  }

  const Config& config_;
  FaultTarget& target_;
  TriggerTable& triggers_;
  std::atomic<uint64_t> begun_ns_{0};
  std::atomic<bool> count_moved_{false};
  std::atomic<bool> delays_acks_{false};
  std::atomic<bool> loses_packets_{false};
  // Never reallocated: threads read the first fault_count_ while the engine adds one.
  std::vector<std::unique_ptr<Fault>> faults_;
  std::atomic<size_t> fault_count_{0};
  uint64_t file_read_ = 0;                                      // bytes of the file
  std::vector<std::vector<std::unique_ptr<LinkModel>>> links_;  // by device and port
};

}  // namespace softhca
