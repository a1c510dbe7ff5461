// How an end of a connection is made: its rails, what the handshake agrees on, and which pairs it
// does without.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/data/connection_end.h"
#include "transport/pairs/pair_plan.h"
#include "transport/pairs/rail_set.h"
#include "transport/pairs/state_changes.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

// In this order: add_rails(), change_states(), what is sent (ConnectionEnd::point) and
// accept_peer(), which at the receiver comes first, begin_connecting(), change_states(), and
// drop_unused(). A connection that recovers goes without pairs that cannot be connected, as long as
// one is left. connection_rails.cc has add_rails().
class ConnectionSetUp {
 public:
  // Outlives it.
  explicit ConnectionSetUp(ConnectionEnd& end) : end_(end) {}

  // Creates this end of the pairs that `plan` plans for `rails`, each as `each` says; its `qps`
  // does not count; and the tables. Rails without a pair are left out. A connection that offers
  // recovery also goes without rails that cannot be created, unless none is left. Before that, an
  // active rail gets what standby pairs give up for it: its own, then those of other connections
  // (RoomMaker). Where little memory is left to lock, none of the standby rails is made
  // (ConnectionOptions::spare_memory).
  Result<RailTables> add_rails(const EndRails& rails, const PairPlan& plan, const RailSpec& each);
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

  // The pairs that the connection goes without.
  const std::vector<LostAtStart>& excluded() const { return excluded_; }
  // Goes on without a pair, or returns its error where it is the last one or cannot be spared.
  Status exclude(uint32_t pair, Error error, PairCause cause = {wire::PairReason::kNotConnected});
  // The same for all pairs of a rail, on which something could not be created. Warns of it.
  Status exclude_rail(uint32_t rail, const Error& error);

 private:
  Result<RailTables> make_rails(const EndRails& rails, PairPlan plan, const RailSpec& each,
                                RailErrors missing);
  Result<RailTables> try_rails(const EndRails& rails, const PairPlan& plan, RailSpec each,
                               size_t* failed);
  Status add_rail(const Device& device, const RailSpec& spec);
  bool is_known_unreachable(uint32_t pair) const;
  bool has_active() const;
  bool is_excluded(size_t pair) const;
  Status exclude_without_qp(uint32_t pair);
  void exclude_displaced();
  Status exclude_failed_pairs();
  void log_excluded(uint32_t pair, const Error& why, bool warns) const;
  void warn_of_missing_flids() const;

  ConnectionEnd& end_;
  StateChanges changes_;
  std::vector<uint32_t> displaced_;  // pairs that are on another rail, as theirs was not created
  std::vector<LostAtStart> excluded_;
};

}  // namespace gdr::transport
