#include "softhca/model/faults.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "softhca/model/clock.h"
#include "softhca/model/fault_report.h"

namespace softhca {

namespace {

// Faults that a file may add, and how often it is looked at.
constexpr size_t kMaxAddedFaults = 1000;
constexpr uint64_t kFileNs = 1'000'000;

uint32_t device_index(const Config& config, const std::string& name) {
  return static_cast<uint32_t>(std::ranges::find(config.devices, name, &DeviceConfig::name) -
                               config.devices.begin());
}

// What the thread that meets the event does at once. The rest is for FaultTarget.
Cut cut_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kPortDown:
    case FaultKind::kPortFlap:
    case FaultKind::kDeviceFatal:
    case FaultKind::kDeviceRemoved:
      return Cut::kPortDown;
    case FaultKind::kQpError:
      return Cut::kQpError;
    case FaultKind::kCompletionError:
      return Cut::kStatus;
    default:
      return Cut::kNothing;
  }
}

// Such a fault happens when what it concerns meets it, which may be later than its trigger.
bool waits_for_its_call(FaultKind kind) {
  return kind == FaultKind::kRegMrRefused || kind == FaultKind::kModifyQpRefused ||
         kind == FaultKind::kAckLost || kind == FaultKind::kPacketsLost ||
         kind == FaultKind::kPortQueryBlocked;
}

bool of_device(FaultKind kind) {
  return kind == FaultKind::kDeviceFatal || kind == FaultKind::kDeviceRemoved;
}

uint64_t ns_of(double ms) { return static_cast<uint64_t>(ms * 1e6); }

}  // namespace

Faults::Faults(const Config& config, FaultTarget& target, TriggerTable& triggers)
    : config_(config), target_(target), triggers_(triggers) {
  for (const DeviceConfig& device : config.devices) {
    auto& ports = links_.emplace_back();
    for (uint32_t port = 0; port < device.ports; ++port) {
      ports.push_back(
          std::make_unique<LinkModel>(device.rate_gbps, device.latency_us, config.reorder_us));
    }
  }
  const bool more = !config.faults_file.empty();
  faults_.reserve(config.faults.size() + (more ? kMaxAddedFaults : 0));
  for (const FaultConfig& fault : config.faults) add(fault, 0);
  if (triggers_.count.load() != 0 || more) {
    triggers_.watch.store(Watch::kEvents);
  } else if (count_moved_ || delays_acks_) {
    triggers_.watch.store(Watch::kCounts);
  }
}

bool Faults::add(const FaultConfig& config, uint64_t since_ns) {
  const bool room = !config.at_request || triggers_.count.load() < kMaxTriggers;
  if (faults_.size() == faults_.capacity() || !room) return false;
  auto& fault = faults_.emplace_back(std::make_unique<Fault>());
  fault->config = config;
  fault->device = device_index(config_, config.device);
  fault->device_rate_gbps = config_.devices[fault->device].rate_gbps;
  fault->since_ns = since_ns;
  if (config.at_request) fault->trigger = add_trigger(config, fault->device);
  if (config.after_bytes != 0 || config.after_ops != 0) count_moved_.store(true);
  if (config.kind == FaultKind::kAckLost) delays_acks_.store(true);
  if (config.kind == FaultKind::kPacketsLost) loses_packets_.store(true);
  fault_count_.store(faults_.size(), std::memory_order_release);
  return true;
}

EventTrigger* Faults::add_trigger(const FaultConfig& fault, uint32_t device) {
  const EventConfig& event = *fault.at_request;
  EventTrigger& trigger = triggers_.entries[triggers_.count.load()];
  trigger.device = device_index(config_, event.device);
  trigger.port = event.port;
  trigger.opcodes = event.opcodes;
  trigger.moment = event.moment;
  trigger.end = event.end;
  trigger.nth = event.nth;
  trigger.cut = cut_of(fault.kind);
  trigger.status = fault.status;
  trigger.cut_device = device;
  trigger.cut_port = of_device(fault.kind) ? 0 : fault.port;
  if (trigger.cut == Cut::kStatus && event.end == End::kResponder) {
    trigger.opcodes &= kReceivedOpcodes;
  }
  triggers_.count.fetch_add(1);
  return &trigger;
}

void Faults::read_file() {
  std::ifstream file(config_.faults_file);
  if (!file || !file.seekg(static_cast<std::streamoff>(file_read_))) return;
  std::string line;
  // A line without its end is still being written.
  while (std::getline(file, line) && !file.eof()) {
    file_read_ += line.size() + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    gdr::Result<FaultConfig> fault = config_.parse_fault(line);
    std::string problem = !fault ? fault.error().text : !add(*fault, now_ns()) ? "no room" : "";
    if (problem.empty()) continue;
    fprintf(stderr, "softhca: %s: %s: %s\n", config_.faults_file.c_str(), line.c_str(),
            problem.c_str());
  }
}

bool Faults::begin() {
  uint64_t none = 0;
  const bool any = fault_count_.load() != 0 || !config_.faults_file.empty();
  if (!any || !begun_ns_.compare_exchange_strong(none, now_ns())) return false;
  (void)serve();  // faults of 0 s have happened before the application can look at the device
  return true;
}

void Faults::moved(uint32_t device, uint32_t port, uint64_t bytes) {
  if (!count_moved_) return;
  for (auto& fault : all()) {
    const FaultConfig& config = fault->config;
    if (fault->device != device || config.port != port) continue;
    uint64_t all_bytes = fault->bytes.fetch_add(bytes) + bytes;
    uint64_t all_ops = fault->ops.fetch_add(1) + 1;
    if (config.after_bytes != 0 && all_bytes >= config.after_bytes) trigger(*fault);
    if (config.after_ops != 0 && all_ops >= config.after_ops) trigger(*fault);
  }
}

bool Faults::begun(const Fault& fault, uint64_t begun_ns) {
  const FaultConfig& config = fault.config;
  if (fault.trigger != nullptr) return fault.triggered.load();
  if (config.after_bytes != 0) return fault.bytes.load() >= config.after_bytes;
  if (config.after_ops != 0) return fault.ops.load() >= config.after_ops;
  return now_ns() >= due_ns(fault, begun_ns);
}

bool Faults::take(Fault& fault) {
  uint32_t limit = fault.config.count;
  return limit == 0 || fault.met.fetch_add(1) < limit;
}

int Faults::registration_error(uint32_t device) {
  for (auto& fault : all()) {
    if (fault->config.kind != FaultKind::kRegMrRefused || fault->device != device) continue;
    if (!begun(*fault, begun_ns_.load())) continue;
    report(*fault, nullptr);
    return fault->config.error;
  }
  return 0;
}

int Faults::modify_error(uint32_t device, uint32_t port, ibv_qp_state to) {
  for (auto& fault : all()) {
    const FaultConfig& config = fault->config;
    if (config.kind != FaultKind::kModifyQpRefused || fault->device != device) continue;
    if (config.port != port || config.to != to) continue;
    if (!begun(*fault, begun_ns_.load()) || !take(*fault)) continue;
    report(*fault, nullptr);
    return config.error;
  }
  return 0;
}

uint64_t Faults::ack_delay_ns(uint32_t device, uint32_t port, const RequestMoment& request) {
  if (!delays_acks_) return 0;
  for (auto& fault : all()) {
    const FaultConfig& config = fault->config;
    if (config.kind != FaultKind::kAckLost || fault->device != device) continue;
    if (config.port != port || !begun(*fault, begun_ns_.load()) || !take(*fault)) continue;
    report(*fault, &request);
    return config.late_us == 0 ? UINT64_MAX : static_cast<uint64_t>(config.late_us * 1e3);
  }
  return 0;
}

bool Faults::loses_packet(uint32_t device, uint32_t port, uint32_t bytes) {
  if (!loses_packets_) return false;
  for (auto& fault : all()) {
    const FaultConfig& config = fault->config;
    if (config.kind != FaultKind::kPacketsLost || fault->device != device) continue;
    if (config.port != port || bytes < config.from_bytes) continue;
    const uint64_t since = due_ns(*fault, begun_ns_.load());
    const uint64_t now = now_ns();
    if (now < since || (config.for_ms != 0 && now >= since + ns_of(config.for_ms))) continue;
    report(*fault, nullptr);
    return true;
  }
  return false;
}

void Faults::await_port_query(uint32_t device) {
  for (auto& fault : all()) {
    const FaultConfig& config = fault->config;
    if (config.kind != FaultKind::kPortQueryBlocked || fault->device != device) continue;
    const uint64_t since = due_ns(*fault, begun_ns_.load());
    const uint64_t now = now_ns(), until = since + ns_of(config.for_ms);
    if (now < since || now >= until) continue;
    report(*fault, nullptr);
    std::this_thread::sleep_for(std::chrono::nanoseconds(until - now));
  }
}

uint64_t Faults::serve() {
  uint64_t next = UINT64_MAX;
  uint64_t begun = begun_ns_.load();
  if (begun == 0) return next;
  if (!config_.faults_file.empty()) {
    read_file();
    next = now_ns() + kFileNs;
  }
  serve_events();
  for (auto& fault : all()) {
    const FaultConfig& config = fault->config;
    bool by_time = config.after_bytes == 0 && config.after_ops == 0 && fault->trigger == nullptr;
    next = std::min(next, step_flap(*fault));
    if (fault->triggered.load() || !by_time) continue;
    uint64_t at = due_ns(*fault, begun);
    if (now_ns() >= at) {
      trigger(*fault);
    } else {
      next = std::min(next, at);
    }
  }
  return next;
}

void Faults::serve_events() {
  for (auto& fault : all()) {
    if (fault->trigger != nullptr && fault->trigger->fired.load() != 0) trigger(*fault);
  }
}

// The port goes down now, and up again `count` times; in between it stays as long as configured.
void Faults::start_flap(Fault& fault) {
  target_.set_port_state(fault.device, fault.config.port, IBV_PORT_DOWN);
  fault.steps_left = 2 * fault.config.count - 1;
  fault.next_step_ns.store(now_ns() + ns_of(fault.config.down_ms));
  target_.wake();
}

uint64_t Faults::step_flap(Fault& fault) {
  uint64_t at = fault.next_step_ns.load();
  if (at == 0) return UINT64_MAX;
  if (now_ns() < at) return at;
  const FaultConfig& config = fault.config;
  bool up = fault.steps_left % 2 == 1;
  target_.set_port_state(fault.device, config.port, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
  at = --fault.steps_left == 0 ? 0 : at + ns_of(up ? config.up_ms : config.down_ms);
  fault.next_step_ns.store(at);
  return at == 0 ? UINT64_MAX : at;
}

void Faults::report(Fault& fault, const RequestMoment* request) {
  if (!config_.report_faults || fault.reported.exchange(true)) return;
  print_fault(fault.config, request);
}

void Faults::trigger(Fault& fault) {
  if (fault.triggered.exchange(true)) return;
  const FaultConfig& config = fault.config;
  if (!waits_for_its_call(config.kind)) {
    report(fault, fault.trigger == nullptr ? nullptr : &fault.trigger->request);
  }
  switch (config.kind) {
    case FaultKind::kPortDown:
      target_.set_port_state(fault.device, config.port, IBV_PORT_DOWN);
      break;
    case FaultKind::kPortUp:
      target_.set_port_state(fault.device, config.port, IBV_PORT_ACTIVE);
      break;
    case FaultKind::kRate:
      link(fault.device, config.port)
          .set_rate(config.share != 0 ? config.share * fault.device_rate_gbps : config.rate_gbps);
      break;
    case FaultKind::kPortFlap:
      start_flap(fault);
      break;
    case FaultKind::kDeviceFatal:
    case FaultKind::kDeviceRemoved:
      target_.fail_device(fault.device, config.kind == FaultKind::kDeviceRemoved, config.silent);
      break;
    case FaultKind::kQpError:
      target_.fail_qps(fault.device, config.port);
      break;
    case FaultKind::kGidChange:
      target_.set_gid(fault.device, config.port, config.gid_index, config.gid);
      break;
    case FaultKind::kLidChange:
      target_.set_lid(fault.device, config.port, config.lid);
      break;
    case FaultKind::kClientReregister:
      target_.report(fault.device, config.port, IBV_EVENT_CLIENT_REREGISTER);
      break;
    case FaultKind::kRegMrRefused:
    case FaultKind::kModifyQpRefused:
    case FaultKind::kAckLost:
    case FaultKind::kPacketsLost:
    case FaultKind::kPortQueryBlocked:
    case FaultKind::kCompletionError:
      break;  // those whom they concern ask whether they have begun
  }
}

}  // namespace softhca
