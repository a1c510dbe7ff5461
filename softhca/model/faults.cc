#include "softhca/model/faults.h"

#include <algorithm>

#include "softhca/model/clock.h"

namespace softhca {

Faults::Faults(const Config& config, FaultTarget& target) : target_(target) {
  for (const DeviceConfig& device : config.devices) {
    auto& ports = links_.emplace_back();
    for (uint32_t port = 0; port < device.ports; ++port) {
      ports.push_back(std::make_unique<LinkModel>(device.rate_gbps, device.latency_us));
    }
  }
  for (const FaultConfig& fault : config.faults) {
    auto& entry = faults_.emplace_back(std::make_unique<Fault>());
    entry->config = fault;
    entry->device =
        static_cast<uint32_t>(std::ranges::find(config.devices, fault.device, &DeviceConfig::name) -
                              config.devices.begin());
    count_bytes_ = count_bytes_ || fault.after_bytes != 0;
  }
}

bool Faults::begin() {
  uint64_t none = 0;
  if (faults_.empty() || !begun_ns_.compare_exchange_strong(none, now_ns())) return false;
  (void)serve();  // faults of 0 s have happened before the application can look at the device
  return true;
}

void Faults::moved(uint32_t device, uint32_t port, uint64_t bytes) {
  if (!count_bytes_) return;
  for (auto& fault : faults_) {
    uint64_t limit = fault->config.after_bytes;
    if (limit == 0 || fault->device != device || fault->config.port != port) continue;
    if (fault->bytes.fetch_add(bytes) + bytes >= limit) trigger(*fault);
  }
}

int Faults::registration_error(uint32_t device) const {
  uint64_t begun = begun_ns_.load();
  for (const auto& fault : faults_) {
    if (fault->config.kind != FaultKind::kRegMrRefused || fault->device != device) continue;
    bool due = fault->config.after_bytes != 0 ? fault->bytes.load() >= fault->config.after_bytes
                                              : now_ns() >= due_ns(*fault, begun);
    if (due) return fault->config.error;
  }
  return 0;
}

uint64_t Faults::serve() {
  uint64_t next = UINT64_MAX;
  uint64_t begun = begun_ns_.load();
  if (begun == 0) return next;
  for (auto& fault : faults_) {
    if (fault->triggered.load() || fault->config.after_bytes != 0) continue;
    uint64_t at = due_ns(*fault, begun);
    if (now_ns() >= at) {
      trigger(*fault);
    } else {
      next = std::min(next, at);
    }
  }
  return next;
}

void Faults::trigger(Fault& fault) {
  if (fault.triggered.exchange(true)) return;
  const FaultConfig& config = fault.config;
  switch (config.kind) {
    case FaultKind::kPortDown:
      target_.set_port_state(fault.device, config.port, IBV_PORT_DOWN);
      break;
    case FaultKind::kPortUp:
      target_.set_port_state(fault.device, config.port, IBV_PORT_ACTIVE);
      break;
    case FaultKind::kRate:
      link(fault.device, config.port).set_rate(config.rate_gbps);
      break;
    case FaultKind::kQpError:
      target_.fail_qps(fault.device, config.port);
      break;
    case FaultKind::kRegMrRefused:
      break;  // registrations ask registration_error()
  }
}

}  // namespace softhca
