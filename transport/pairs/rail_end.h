// This end of one rail of a connection: a port, its completion queue and its queue pairs.
#pragma once

#include <string>
#include <vector>

#include "transport/pairs/queue_pair.h"

namespace gdr::transport {

// What a connection needs of a rail.
struct RailSpec {
  int qps = 1;
  QueueDepths depths;          // of each QP
  int standby_sends = 0;       // instead of depths.send on a standby rail, unless 0
  int extra_completions = 0;   // room in the CQ beside one entry per work request
  bool posts_receives = true;  // false: the QPs' receive queues stay empty
};

// Owns the completion queue and the queue pairs of this end of one rail.
class RailEnd {
 public:
  // Resolves the port's address, which may have changed since discovery, and creates the CQ and the
  // QPs, in RESET. `rail` is the index of the rail within its connection.
  static Result<RailEnd> create(const Device& device, uint32_t rail, const RailSpec& spec,
                                const ConnectionOptions& options);

  const Device& device() const { return device_; }
  // tables_rkey is zero: RailTables fills it in.
  const wire::RailAddress& address() const { return address_; }
  // Returns the address of the port at present: on RoCE that of the handshake as long as the port
  // has it, whose entry moves within the table when the link goes down and comes back; else one
  // that is chosen as that was. tables_rkey is zero.
  Result<wire::RailAddress> present_address(const ConnectionOptions& options) const;
  // Null once it was given back.
  ibv_cq* cq() const { return cq_.get(); }
  // The CQ has been destroyed.
  void forget_queue() { (void)cq_.release(); }
  std::vector<QueuePair>& qps() { return qps_; }
  const std::vector<QueuePair>& qps() const { return qps_; }

 private:
  Device device_;
  wire::RailAddress address_{};
  verbs::UniqueCq cq_;
  std::vector<QueuePair> qps_;  // destroyed before cq_
};

// "mlx5_0:1 lid 5", "mlx5_0:1 lid 5 flid 49153" or "mlx5_0:1 gid ::ffff:10.0.0.1 (RoCE v2, index
// 3)".
std::string to_string(const wire::RailAddress& address);

}  // namespace gdr::transport
