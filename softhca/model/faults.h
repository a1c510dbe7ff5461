// The faults of the configuration, and the links that they change.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "softhca/model/config.h"
#include "softhca/model/link_model.h"

namespace softhca {

class Process;

class Faults {
 public:
  explicit Faults(Process& process);

  // Starts the clock of faults "at_s", once.
  void begin();
  LinkModel& link(uint32_t device, uint32_t port) { return *links_[device][port - 1]; }

  // Counts what the requests of a port moved, where a fault waits for that, and lets it happen.
  void moved(uint32_t device, uint32_t port, uint64_t bytes);
  // 0, or the errno with which a registration on the device is to be refused now.
  int registration_error(uint32_t device) const;

  // Engine: lets happen what is due; the time of the next one (ns), UINT64_MAX when none is left.
  uint64_t serve();

 private:
  struct Fault {
    FaultConfig config;
    uint32_t device;
    std::atomic<uint64_t> bytes{0};
    std::atomic<bool> happened{false};
  };
  // Once.
  void happen(Fault& fault);

  Process& process_;
  std::atomic<uint64_t> begun_ns_{0};
  bool count_bytes_ = false;
  std::vector<std::unique_ptr<Fault>> faults_;
  std::vector<std::vector<std::unique_ptr<LinkModel>>> links_;
};

}  // namespace softhca
