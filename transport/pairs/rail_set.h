// The rails of one connection and their queue pairs. Both comms use it. It decides which QP carries
// the next chunk and which rail's keys go with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "transport/pairs/pair_plan.h"
#include "transport/pairs/rail_end.h"

namespace gdr::transport {

// The ports of this end that pairs without a QP were meant for, by pair, where the connection goes
// without their rail: "mlx5_0:1".
using MissingPorts = std::map<uint32_t, std::string>;

// Whether two RoCE ports have the same RoCE version and address family.
bool is_of_kind(const wire::RailAddress& one, const wire::RailAddress& other);
// Checks that two ports can reach each other: one link layer, RoCE version and address family.
Status check_rail_pair(const wire::RailAddress& local, const wire::RailAddress& remote);

// The wire protocol has room for wire::kMaxRails rails in a connection, and the numbers of both
// ends may differ: QP i of one end is connected to QP i of the other, and each end says which rail
// of its own that is on.
class RailSet {
 public:
  // Creates this end of one more rail. QPs are spread evenly; the first rails may have one more.
  Status add(const Device& device, const RailSpec& spec, const ConnectionOptions& options);
  // Numbers the QPs as the plan says. Each rail was added with as many QPs as it has in the plan.
  // A pair that has none there is a QueuePair without a QP.
  void arrange(const PairPlan& plan);

  size_t size() const { return rails_.size(); }
  const RailEnd& operator[](size_t rail) const { return rails_[rail]; }
  void forget_queue(size_t rail) { rails_[rail].forget_queue(); }
  auto begin() const { return rails_.begin(); }
  auto end() const { return rails_.end(); }

  // All QPs in the order in which the handshake numbers them. Without a plan, QP i belongs to rail
  // i % size(), so that QPs taken in turn alternate between the rails of this end.
  size_t pair_count() const { return pairs_.size(); }
  QueuePair& pair(size_t index) const { return *pairs_[index]; }
  size_t active_count() const { return static_cast<size_t>(active_end_ - pairs_.begin()); }
  // The QP that carries all clear-to-send writes: writes of one QP arrive in the order in which
  // they were posted, and the completion of one confirms those before it.
  const QueuePair& clear_to_send_pair() const { return *clear_to_send_; }
  // Recovery chooses another one where that is lost.
  void set_clear_to_send_pair(size_t index) { clear_to_send_ = pairs_[index]; }

  // Posts receives that have no buffer: a write with immediate consumes one for its completion, and
  // any will do. Their completions carry wr_id. Returns how many were posted: fewer than `count`
  // where the HCA refused one; 0 without a QP.
  int post_receives(size_t index, int count, uint64_t wr_id) const;
  static constexpr int kReceiveBatch = 64;  // the most that one call posts

  // Destroys the QPs that stand by, and the rails that have no other. Those come last.
  void drop_standby();
  // Destroys all QPs: nothing is transferred from here on, and memory that the peer may have
  // written to can be deregistered.
  void destroy_queue_pairs();

  // Fills the rails, QP numbers and addresses of what this end sends in kHello or kReply.
  void describe(wire::EndPoint* end) const;
  // Checks that the peer has the same number of QPs. The peer's end is one that Frame::end_point()
  // has checked.
  Status check_peer(const wire::EndPoint& peer) const;
  // check_rail_pair() of the two ports of a pair of QPs.
  Status check_pair(size_t index, const wire::EndPoint& peer) const;
  // Notes for each QP on which rail of the peer its counterpart is.
  void set_peer_rails(const wire::EndPoint& peer);

 private:
  void number_pairs();

  std::vector<RailEnd> rails_;
  std::vector<QueuePair> without_qp_;
  std::vector<QueuePair*> pairs_;                 // into these two, in the handshake's order
  std::vector<QueuePair*>::iterator active_end_;  // behind the last that does not stand by
  QueuePair* clear_to_send_ = nullptr;
};

}  // namespace gdr::transport
