// How an end creates its rails, with what gives way for them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transport/data/connection_end.h"
#include "transport/pairs/pair_plan.h"
#include "transport/pairs/rail_tables.h"
#include "transport/pairs/state_changes.h"

namespace gdr::transport {

// Plans the pairs of an end. lean: without what a connection can do without.
using Planner = std::function<PairPlan(const EndRails& rails, bool lean)>;

class RailMaker {
 public:
  // changes: takes the changes of the QPs to INIT. Both outlive it.
  RailMaker(ConnectionEnd& end, StateChanges& changes) : end_(end), changes_(changes) {}

  // Creates this end of the pairs that `plan` plans for `rails`, each as `each` says; its `qps`
  // does not count; and the tables. Rails without a pair are left out. A connection that offers
  // recovery also goes without rails that cannot be created, unless none is left. Where that is an
  // active rail, it is first tried again lean: without standby rails, with the depths `least`,
  // which `each` then has, and with what standby pairs of other connections give up for it
  // (RoomRequests). So it is made at once where little memory is left to lock
  // (ConnectionOptions::spare_memory).
  Result<RailTables> make(EndRails rails, const Planner& plan, RailSpec* each,
                          const QueueDepths& least);
  // Pairs whose rail could not be created, so that they are on another one.
  const std::vector<uint32_t>& displaced() const { return displaced_; }

 private:
  Result<RailTables> make_lean(const EndRails& rails, const Planner& plan, RailSpec* each,
                               const QueueDepths& least, const Error& lack);
  Result<RailTables> try_rails(const EndRails& rails, const PairPlan& plan, RailSpec each,
                               size_t* failed);
  Status add_rail(const Device& device, const RailSpec& spec);

  ConnectionEnd& end_;
  StateChanges& changes_;
  std::vector<uint32_t> displaced_;
};

}  // namespace gdr::transport
