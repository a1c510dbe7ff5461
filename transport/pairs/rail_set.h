// The rails of one connection: this end of each, their queue pairs, and the tables that both ends
// write to each other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/memory/registered_block.h"
#include "transport/pairs/pair_plan.h"
#include "transport/pairs/queue_pair.h"
#include "transport/pairs/rdma_write.h"

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
  // QPs, in RESET.
  static Result<RailEnd> create(const Device& device, const RailSpec& spec,
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

// Whether two RoCE ports have the same RoCE version and address family.
bool is_of_kind(const wire::RailAddress& one, const wire::RailAddress& other);
// Checks that two ports can reach each other: one link layer, RoCE version and address family.
Status check_rail_pair(const wire::RailAddress& local, const wire::RailAddress& remote);

// What a connection has moved over one of its rails, for any thread to read. The comm's thread
// writes the first two, the recovery the others; all accesses are relaxed, as no other data depends
// on them.
struct RailCounters {
  std::atomic<uint64_t> bytes{0};    // of the data, at the sender acknowledged, else received
  std::atomic<uint64_t> chunks{0};   // writes with immediate: messages, or parts of them
  std::atomic<uint64_t> losses{0};   // of queue pairs
  std::atomic<uint64_t> returns{0};  // of queue pairs to use, after a loss

  // Only one thread calls it, so that no atomic increment is needed.
  [[gnu::always_inline]] void count(uint64_t moved) {
    bytes.store(bytes.load(std::memory_order_relaxed) + moved, std::memory_order_relaxed);
    chunks.store(chunks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

// The wire protocol has room for wire::kMaxRails rails in a connection, and the numbers of both
// ends may differ: QP i of one end is connected to QP i of the other, and each end says which rail
// of its own that is on.
class RailSet {
 public:
  // Creates this end of one more rail. Its QPs are no pairs before arrange().
  Status add(const Device& device, const RailSpec& spec, const ConnectionOptions& options);
  // Numbers the QPs as the plan says. Each rail was added with as many QPs as it has in the plan.
  // A pair that has none there is a QueuePair without a QP.
  void arrange(const PairPlan& plan);

  size_t size() const { return rails_.size(); }
  const RailEnd& operator[](size_t rail) const { return rails_[rail]; }
  void forget_queue(size_t rail) { rails_[rail].forget_queue(); }
  auto begin() const { return rails_.begin(); }
  auto end() const { return rails_.end(); }

  // All QPs in the order in which the handshake numbers them.
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

  // Fills the rails, QP numbers, ECE options and addresses of what this end sends in kHello or
  // kReply.
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

// The tables that one end keeps for the other to write (wire::Tables), registered on every rail.
class RailTables {
 public:
  // None.
  RailTables() = default;
  // Zeroed tables. statements: with the scratch of probes and the statements about so many pairs,
  // which only a connection that recovers pairs has; they are the last part, and nothing refers to
  // them otherwise.
  RailTables(size_t pairs, bool statements);
  // Registers them on one more rail, without relaxed ordering: a slot's last word must not become
  // visible before the words in front of it.
  Status add_rail(const HcaContext& hca);

  wire::Tables* operator->() const { return memory_.get(); }

  // Fills the address and the rkeys of what this end sends in kHello or kReply, after
  // RailSet::describe.
  void describe(wire::EndPoint* end) const;

  // Deregisters the tables on a rail over which nothing goes any more.
  void give_back(size_t rail) { registrations_[rail].reset(); }

  // The write that copies entries of these tables to the same position in the peer's, over `pair`.
  template <class Entry>
  RdmaWrite copy_to_peer(const Entry* entries, size_t count, const wire::EndPoint& peer,
                         const QueuePair& pair) const {
    const auto address = reinterpret_cast<uint64_t>(entries);
    const uint64_t offset = address - reinterpret_cast<uint64_t>(memory_.get());
    return RdmaWrite{.source = address,
                     .bytes = static_cast<uint32_t>(count * sizeof(Entry)),
                     .lkey = lkeys_[pair.rail],
                     .target = peer.tables_address + offset,
                     .rkey = pair.peer_tables_rkey,
                     .cpu_readable = true};
  }

 private:
  Pages<wire::Tables> memory_;
  std::array<uint32_t, wire::kMaxRails> lkeys_{};
  std::vector<verbs::UniqueMr> registrations_;  // by rail; destroyed before memory_
};

}  // namespace gdr::transport
