// The rails of one connection and their queue pairs. Both comms use it. It decides which QP carries
// the next chunk and which rail's keys go with it.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/data/rail_end.h"

namespace gdr::transport {

// The wire protocol has room for wire::kMaxRails rails in a connection, and the numbers of both
// ends may differ: QP i of one end is connected to QP i of the other, and each end says which rail
// of its own that is on. Connectors and listeners make connections of one rail at each end.
class RailSet {
 public:
  // Creates this end of one more rail. QPs are spread evenly; the first rails may have one more.
  Status add(const Device& device, const RailSpec& spec, const ConnectionOptions& options);

  size_t size() const { return rails_.size(); }
  const RailEnd& operator[](size_t rail) const { return rails_[rail]; }
  auto begin() const { return rails_.begin(); }
  auto end() const { return rails_.end(); }

  // All QPs in the order in which the handshake numbers them: QP i belongs to rail i % size(), so
  // that QPs taken in turn alternate between the rails of this end.
  size_t pair_count() const { return pairs_.size(); }
  QueuePair& pair(size_t index) const { return *pairs_[index]; }
  // Returns the QPs in turn, for what senders write.
  const QueuePair& next_pair() {
    const QueuePair& pair = **next_;
    if (++next_ == pairs_.end()) next_ = pairs_.begin();
    return pair;
  }
  // The QP that carries all clear-to-send writes: writes of one QP arrive in the order in which
  // they were posted, and the completion of one confirms those before it.
  const QueuePair& clear_to_send_pair() const { return *pairs_.front(); }

  // Posts receives that have no buffer: a write with immediate consumes one for its completion, and
  // any will do. The completion's wr_id is `index`, the QP's. Returns false where posting failed.
  bool post_receives(size_t index, int count);
  static constexpr int kReceiveBatch = 64;  // the most that one call posts

  // Destroys all QPs: nothing is transferred from here on, and memory that the peer may have
  // written to can be deregistered.
  void destroy_queue_pairs();

  // Fills the rails, QP numbers and addresses of what this end sends in kHello or kReply.
  void describe(wire::EndPoint* end) const;
  // Checks that the peer has the same number of QPs, and that the two ports of each pair of QPs can
  // reach each other: one link layer, RoCE version and address family. The peer's end is one that
  // Frame::end_point() has checked.
  Status check_peer(const wire::EndPoint& peer) const;
  // Notes for each QP on which rail of the peer its counterpart is.
  void set_peer_rails(const wire::EndPoint& peer);

 private:
  std::vector<RailEnd> rails_;
  std::vector<QueuePair*> pairs_;  // into rails_, in the handshake's order
  std::vector<QueuePair*>::iterator next_;
};

}  // namespace gdr::transport
