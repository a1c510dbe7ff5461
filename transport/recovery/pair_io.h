// What the recovery of pairs asks of the verbs library for the QPs of this end: to stop and destroy
// them, to connect them again with their receives, and to write probes and statements. (A pair, an
// epoch, a statement: docs/glossary.md.)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "transport/pairs/queue_pair.h"
#include "transport/pairs/rail_set.h"
#include "transport/pairs/rdma_write.h"
#include "transport/pairs/unreachable_paths.h"
#include "transport/recovery/pair_agreement.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// What the handshake has fixed for the pairs of one end. The objects outlive the PairIo.
struct PairSetUp {
  PairEnd end;
  RailSet* rails;
  RailTables* tables;
  const wire::EndPoint* peer;
  // Its clock is asked after the connection has been closed, too.
  std::shared_ptr<const ConnectionOptions> options;
  ServiceClass service;  // of what this end writes
  uint32_t first_psn;    // of this end in epoch 0
  int receives;          // posted per QP
  // What is done to QP `index` before it goes to RTR; may return null.
  std::function<std::function<Status()>(size_t index)> before_receiving;
  UnreachablePaths* unreachable;
  std::string host;  // of this end, for texts
};

// Its functions must not run at the same time for one pair, nor once the QPs are destroyed.
class PairIo {
 public:
  explicit PairIo(PairSetUp set_up) : is_(std::move(set_up)) {}

  PairEnd end() const { return is_.end; }
  const RailSet& rails() const { return *is_.rails; }
  size_t pair_count() const { return is_.rails->pair_count(); }
  const ConnectionOptions& options() const { return *is_.options; }
  const PairSetUp& set_up() const { return is_; }
  QueuePair& at(uint32_t pair) const { return is_.rails->pair(pair); }
  const RailEnd& rail_of(uint32_t pair) const { return (*is_.rails)[at(pair).rail]; }
  const wire::RailAddress& peer_rail(uint32_t pair) const {
    return is_.peer->rail[at(pair).peer_rail];
  }

  // Moves the QP to ERROR, or to RESET where it was never in RTS, so that nothing is sent or taken
  // any more. Returns an errno value; 0 is success. After a failure the QP may still take what
  // arrives.
  int stop(uint32_t pair) const;
  // Moves the QP to RESET, so that what is posted on it is forgotten. Returns an errno value.
  int reset(uint32_t pair) const;
  // Destroys a QP. Returns an errno value; where that is not 0, *qp still owns it. Waits until all
  // asynchronous events of the QP are acknowledged (ibv_destroy_qp(3)).
  static int destroy(verbs::UniqueQp* qp);
  // The same of the CQ of a rail without QPs, which still has it; RailSet::forget_queue() ends
  // that.
  int destroy_queue(uint32_t rail) const;
  // Whether a verb that fails so was called on an HCA that was removed, or whose driver has given
  // it up: the kernel has then destroyed its QPs.
  static bool is_gone(int err);
  bool has_queue_pair(uint32_t pair) const { return at(pair).qp != nullptr; }
  // Whether the QP is in RESET, so that nothing is posted on it.
  bool is_reset(uint32_t pair) const { return at(pair).qp->state == IBV_QPS_RESET; }
  // Whether the port of a rail is active, or was a second before (PortStates). May block.
  bool is_port_active(uint32_t rail) const;
  // Posts a signalled write into the peer's scratch, of wire::kProbeBytes or of none. Returns an
  // errno value; 0 is success.
  int post_probe(uint32_t pair, uint64_t wr_id, size_t bytes) const;
  // Posts an unsignalled one of wire::kProbeBytes, and behind it a signalled one that shows the
  // peer that it has arrived (peer_probed).
  int post_return_probe(uint32_t pair, uint32_t epoch, uint64_t wr_id) const;
  // In which epoch the peer's last return probe has arrived.
  uint32_t peer_probed(uint32_t pair) const;
  // Whether the HCA reads a statement until its completion, since it does not take it inline.
  bool reads_statement_later(uint32_t carrier) const {
    return sizeof(wire::PairStatement) > at(carrier).inline_bytes;
  }
  // Writes a statement into the peer's tables over the pair `carrier`. Returns an errno value.
  int post_statement(uint32_t carrier, const wire::PairStatement& statement, uint64_t wr_id) const;
  // What the peer has written about the pair last.
  const wire::PairStatement& peer_statement(uint32_t pair) const;

  // Whether the connection goes without the pair's rail, so that at(pair).rail is another one.
  bool is_rail_missing(uint32_t pair) const { return !at(pair).missing_port.empty(); }
  // "mlx5_0:1", "nodeB mlx5_3:1" and "mlx5_0:1 <-> nodeB mlx5_3:1", for texts. A peer without a QP
  // for the pair does not say which port that was meant for: "nodeB (unnamed)".
  std::string port_text(uint32_t pair) const;
  std::string peer_text(uint32_t pair) const;
  std::string path_text(uint32_t pair) const;

 private:
  template <class Entry>
  RdmaWrite copy_to_peer(uint32_t pair, const Entry* entries, size_t count) const;

  PairSetUp is_;
};

// Moves a QP in ERROR through RESET to RTS for that epoch, connected to that address of the peer's
// port, with its receives posted. Returns the present address of this end's port. An error where
// the two ports cannot reach each other, as in the handshake. May block while the kernel resolves
// the peer's address.
Result<wire::PortAddress> connect_again(const PairIo& io, uint32_t pair, uint32_t epoch,
                                        const wire::PortAddress& peer);
// Whether that address of the peer's port could not be resolved from the pair's port shortly
// before, by this connection or another one, so that connect_again() would most likely block and
// fail. urgent: see UnreachablePaths.
bool is_held_unreachable(const PairIo& io, uint32_t pair, const wire::PortAddress& peer,
                         bool urgent);

// The first packet sequence number in an epoch, 24 bits: 239,047 packets after that of the epoch
// before, which carry 1 GB at an MTU of 4096. What else keeps late packets of an earlier epoch away
// is in docs/wire-protocol.md.
constexpr uint32_t psn_in_epoch(uint32_t first_psn, uint32_t epoch) {
  return (first_psn + epoch * 0x3a5c7u) & 0xffffff;
}

}  // namespace gdr::transport
