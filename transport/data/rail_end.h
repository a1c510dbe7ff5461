// One rail of a connection: a port, its completion queue and its queue pairs.
#pragma once

#include <vector>

#include "transport/data/queue_pair.h"

namespace gdr::transport {

struct RailSpec {
  int qps = 1;
  QueueDepths depths;
  int extra_completions = 0;  // beside one per work request
};

class RailEnd {
 public:
  // Looks the port's address up afresh and creates everything up to INIT.
  static Result<RailEnd> create(const Device& device, const RailSpec& plan,
                                const ConnectionOptions& options);

  const Device& device() const { return device_; }
  const wire::RailAddress& address() const { return address_; }
  wire::RailAddress& address() { return address_; }
  ibv_cq* cq() const { return cq_.get(); }
  std::vector<QueuePair>& qps() { return qps_; }
  const std::vector<QueuePair>& qps() const { return qps_; }

 private:
  Device device_;
  wire::RailAddress address_{};
  verbs::UniqueCq cq_;
  std::vector<QueuePair> qps_;  // destroyed before cq_
};

// "mlx5_0:1 lid 5" or "mlx5_0:1 gid ::ffff:10.0.0.1 (RoCE v2, index 3)".
std::string to_string(const wire::RailAddress& address);

}  // namespace gdr::transport
