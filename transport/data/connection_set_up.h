// How an end of a connection is made: its rails, what the handshake agrees on, and which pairs it
// does without.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/data/connection_end.h"
#include "transport/data/excluded_pairs.h"
#include "transport/data/rail_maker.h"
#include "transport/pairs/state_changes.h"

namespace gdr::transport {

// In this order: add_rails(), change_states(), what is sent (ConnectionEnd::point) and
// accept_peer(), which at the receiver comes first, begin_connecting(), change_states(), and
// drop_unused().
class ConnectionSetUp {
 public:
  // Outlives it.
  explicit ConnectionSetUp(ConnectionEnd& end) : end_(end) {}

  // RailMaker::make.
  Result<RailTables> add_rails(EndRails rails, const Planner& plan, RailSpec* each,
                               const QueueDepths& least);
  // Checks that the peer's end fits ours, and keeps it. The error text names both ends and the fix.
  Status accept_peer(const wire::EndPoint& peer);
  // Begins to connect all QPs to the peer that accept_peer took, with ConnectionEnd::service.
  void begin_connecting();
  // Makes the changes of state that this end's QPs have yet to make, to INIT and those of
  // begin_connecting(), as far as that is possible without waiting. Returns whether all are made;
  // false: call again.
  Result<bool> change_states();
  // Sender, with all QPs in INIT: asks the HCAs for the ECE options that the hello then offers.
  void query_ece_offers();
  // Receiver, with all QPs in RTS: asks for those of the sender's options that have been accepted,
  // which the reply then names. A pair that is excluded has none.
  Status query_accepted_ece();
  // Destroys the QP of a standby pair for what something else lacks, on that HCA or, where it is
  // null, on any, and the handshake goes on without it. Returns whether there was one. What the
  // peer has not learnt from the hello or the reply, it learns from a statement.
  bool give_up_standby(const HcaContext* hca, int lack);
  // The same for another part of the connection, on that device.
  bool give_up_standby(const Device& device, const Error& lack);
  // Destroys the pairs that stand by where nothing is recovered, and the rails that only they are
  // on. Once all QPs are connected.
  void drop_unused();
  // Other connections learn which ports have been reached. Before the state of a QP may change.
  void note_reached_ports() const;
  ExcludedPairs& excluded() { return excluded_; }

 private:
  void name_missing_ports(const EndRails& all, const Planner& plan);
  bool is_known_unreachable(uint32_t pair) const;
  bool has_active() const;
  Status exclude_failed_pairs();
  void warn_of_missing_flids() const;

  ConnectionEnd& end_;
  StateChanges changes_;
  std::vector<uint32_t> displaced_;  // RailMaker::displaced
  ExcludedPairs excluded_{end_};
};

}  // namespace gdr::transport
