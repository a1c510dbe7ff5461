// Counts what a process asks of its HCAs, for models of what that costs on hardware: requests by
// their shape, the calls that post them, completions, and the sizes of queues and registrations.
// Off unless the configuration names a `counters_file`.
//
// The file holds shapes instead of bytes on a bus or packets on a wire: those depend on the
// provider, the MTU and the link layer, and follow from the shapes.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace softhca {

struct DeviceConfig;

// Two requests of the same shape cost the same.
struct RequestShape {
  const char* opcode = "";  // as verbs names it, without IBV_WR_, such as "RDMA_WRITE"
  uint64_t bytes = 0;
  uint32_t sges = 0;  // 0 where the data is inline
  bool inlined = false;
  bool signaled = false;

  auto operator<=>(const RequestShape& other) const = default;
};

// The sizes that a queue pair was created with; of a completion queue only `entries`.
struct QueueShape {
  uint32_t entries = 0;   // max_send_wr
  uint32_t receives = 0;  // max_recv_wr
  uint32_t send_sges = 0;
  uint32_t receive_sges = 0;
  uint32_t inline_bytes = 0;

  auto operator<=>(const QueueShape& other) const = default;
};

class Counters {
 public:
  // `file` is `counters_file` of the configuration: an absolute path, in which %p stands for the
  // process's number.
  Counters(std::string file, const std::vector<DeviceConfig>& devices);

  // All may be called by several threads. `device` and `port` as in shared_layout.h: the index of
  // the device, and the port's number, which counts from 1.
  void add_request(uint32_t device, uint32_t port, const RequestShape& shape);
  // A call that posted at least one request.
  void add_doorbell(uint32_t device, uint32_t port);
  void add_receives(uint32_t device, uint32_t port, uint64_t requests);
  // A completion that the application has polled.
  void add_completion(uint32_t device, uint32_t port, bool of_send, bool success);
  void add_queue_pair(uint32_t device, const QueueShape& shape);
  void add_completion_queue(uint32_t device, uint32_t entries);
  void add_registration(uint32_t device, uint64_t bytes);

  // The JSON object of the file.
  std::string text() const;
  // Writes the file; a failure goes to stderr.
  void write() const;

 private:
  struct Port {
    std::map<RequestShape, uint64_t> requests;
    uint64_t doorbells = 0;
    uint64_t receives = 0;
    uint64_t receive_doorbells = 0;
    uint64_t send_completions = 0;
    uint64_t receive_completions = 0;
    uint64_t error_completions = 0;  // of both queues, and in neither of the two above
  };
  struct Device {
    std::string name;
    std::vector<Port> ports;
    std::map<QueueShape, uint64_t> queue_pairs;  // ever created, as the next two
    std::map<uint32_t, uint64_t> completion_queues;
    uint64_t registrations = 0;
    uint64_t registered_bytes = 0;
  };

  const std::string file_;
  mutable std::mutex mutex_;
  std::vector<Device> devices_;
};

}  // namespace softhca
