#include "softhca/model/counters.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "softhca/model/config.h"

namespace softhca {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string with_process_number(std::string path) {
  const size_t at = path.find("%p");
  if (at != std::string::npos) path.replace(at, 2, std::to_string(getpid()));
  return path;
}

OrderedJson json_of_request(const RequestShape& shape, uint64_t count) {
  return {{"opcode", shape.opcode},  {"bytes", shape.bytes},       {"sges", shape.sges},
          {"inline", shape.inlined}, {"signaled", shape.signaled}, {"count", count}};
}

OrderedJson json_of_queue_pair(const QueueShape& shape, uint64_t count) {
  return {{"max_send_wr", shape.entries},     {"max_recv_wr", shape.receives},
          {"max_send_sge", shape.send_sges},  {"max_recv_sge", shape.receive_sges},
          {"max_inline", shape.inline_bytes}, {"count", count}};
}

}  // namespace

Counters::Counters(std::string file, const std::vector<DeviceConfig>& devices)
    : file_(with_process_number(std::move(file))) {
  for (const DeviceConfig& config : devices) {
    Device device;
    device.name = config.name;
    device.ports.resize(config.ports);
    devices_.push_back(std::move(device));
  }
}

void Counters::add_request(uint32_t device, uint32_t port, const RequestShape& shape) {
  std::lock_guard lock(mutex_);
  ++devices_[device].ports[port - 1].requests[shape];
}

void Counters::add_doorbell(uint32_t device, uint32_t port) {
  std::lock_guard lock(mutex_);
  ++devices_[device].ports[port - 1].doorbells;
}

void Counters::add_receives(uint32_t device, uint32_t port, uint64_t requests) {
  if (requests == 0) return;
  std::lock_guard lock(mutex_);
  devices_[device].ports[port - 1].receives += requests;
  ++devices_[device].ports[port - 1].receive_doorbells;
}

void Counters::add_completion(uint32_t device, uint32_t port, bool of_send, bool success) {
  std::lock_guard lock(mutex_);
  Port& counts = devices_[device].ports[port - 1];
  ++(!success  ? counts.error_completions
     : of_send ? counts.send_completions
               : counts.receive_completions);
}

void Counters::add_queue_pair(uint32_t device, const QueueShape& shape) {
  std::lock_guard lock(mutex_);
  ++devices_[device].queue_pairs[shape];
}

void Counters::add_completion_queue(uint32_t device, uint32_t entries) {
  std::lock_guard lock(mutex_);
  ++devices_[device].completion_queues[entries];
}

void Counters::add_registration(uint32_t device, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  ++devices_[device].registrations;
  devices_[device].registered_bytes += bytes;
}

std::string Counters::text() const {
  std::lock_guard lock(mutex_);
  OrderedJson devices = OrderedJson::array();
  for (const Device& device : devices_) {
    OrderedJson ports = OrderedJson::array();
    for (const Port& port : device.ports) {
      OrderedJson requests = OrderedJson::array();
      for (const auto& [shape, count] : port.requests) {
        requests.push_back(json_of_request(shape, count));
      }
      ports.push_back({{"requests", requests},
                       {"doorbells", port.doorbells},
                       {"receives", port.receives},
                       {"receive_doorbells", port.receive_doorbells},
                       {"send_completions", port.send_completions},
                       {"receive_completions", port.receive_completions},
                       {"error_completions", port.error_completions}});
    }
    OrderedJson queue_pairs = OrderedJson::array(), queues = OrderedJson::array();
    for (const auto& [shape, count] : device.queue_pairs) {
      queue_pairs.push_back(json_of_queue_pair(shape, count));
    }
    for (const auto& [entries, count] : device.completion_queues) {
      queues.push_back({{"cqe", entries}, {"count", count}});
    }
    devices.push_back({{"name", device.name},
                       {"ports", ports},
                       {"queue_pairs", queue_pairs},
                       {"completion_queues", queues},
                       {"registrations", device.registrations},
                       {"registered_bytes", device.registered_bytes}});
  }
  return OrderedJson{{"pid", getpid()}, {"devices", devices}}.dump(1) + "\n";
}

void Counters::write() const {
  std::ofstream file(file_);
  file << text();
  if (!file.flush()) fprintf(stderr, "softhca: cannot write counters_file %s\n", file_.c_str());
}

}  // namespace softhca
