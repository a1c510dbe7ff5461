#include "transport/device/moved_counters.h"

#include <utility>

namespace gdr::transport {
namespace {

constexpr std::chrono::seconds kReadPause{1};

}  // namespace

void MovedCounters::watch(const Device& device) {
  const std::string name = to_string(device);
  {
    std::lock_guard lock(mutex_);
    if (ports_.contains(name)) return;
  }
  const std::string& path = device.hca->sysfs_path();
  HardwareCounters first = read_hardware_counters(path, device.port);
  std::lock_guard lock(mutex_);
  ports_.try_emplace(name, Port{path, device.port, std::move(first), now_()});
}

void MovedCounters::suspect(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto port = ports_.find(name);
  if (port != ports_.end()) port->second.suspected = true;
}

std::vector<std::string> MovedCounters::take_suspected() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (auto& [name, port] : ports_) {
    if (std::exchange(port.suspected, false)) names.push_back(name);
  }
  return names;
}

std::string MovedCounters::take(const std::string& name, Clock::duration pause) {
  std::unique_lock lock(mutex_);
  const auto found = ports_.find(name);
  if (found == ports_.end()) return "";
  Port& port = found->second;
  const Clock::time_point now = now_();
  if (port.has_text && now < port.since + pause) return "";
  if (port.read_at != Clock::time_point{} && now < port.read_at + kReadPause) return "";
  port.read_at = now;
  lock.unlock();
  HardwareCounters counters = read_hardware_counters(port.ibdev_path, port.number);
  lock.lock();
  const HardwareCounters moved = moved_symptoms(port.last, counters);
  if (moved.empty()) return "";
  counters.merge(port.last);  // one that has vanished keeps its last value
  port.last = std::move(counters);
  port.has_text = true;
  const Clock::time_point since = std::exchange(port.since, now_());
  const auto time = std::chrono::duration_cast<std::chrono::seconds>(port.since - since);
  return "hardware counters of " + name + " that moved in the last " +
         std::to_string(time.count()) + " s: " + to_string(moved);
}

}  // namespace gdr::transport
