// Which rail of an end each pair of a connection is on, and which pairs stand by.
//
// A pair is a QP of the sender and the QP of the receiver that it is connected to. The sender
// decides how many there are; each end decides on which of its own rails its QPs are.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "transport/device/hca.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// The ports that one end of a connection uses. A standby rail carries nothing while another one is
// usable.
struct EndRails {
  std::vector<Device> active;
  std::vector<Device> standby;

  size_t size() const { return active.size() + standby.size(); }
  // Rail i of the end: the active ones first.
  const Device& operator[](size_t rail) const {
    return rail < active.size() ? active[rail] : standby[rail - active.size()];
  }
  // That each of their HCAs has room for in a queue.
  int max_work_requests() const {
    int least = INT_MAX;
    for (size_t i = 0; i < size(); ++i)
      least = std::min(least, (*this)[i].hca->max_work_requests());
    return least;
  }
};

// How many rails a listener has that recovers; none where it does not, or has only one.
struct ListenerRails {
  size_t active = 0;
  size_t standby = 0;

  bool has_spare() const { return active + standby > 1; }
};

// The end of one pair.
struct PairPlace {
  uint32_t rail;  // index into the EndRails of this end
  bool standby;
  bool has_qp = true;  // false: of a standby pair, which the connection then does without

  bool operator==(const PairPlace&) const = default;
};

// By pair, in the order in which the handshake numbers them: the active ones first.
using PairPlan = std::vector<PairPlace>;

// The sender's plan: qps_per_rail active pairs for each active rail, or as many times more as it
// takes that each active rail of the peer has a pair, which alternate between the rails; then one
// standby pair for each standby rail. Where the peer has several rails, a sender
// without a standby rail adds one standby pair on its last active rail, whose other end the
// receiver puts on another rail of its own; but not where an active pair is between the same two
// rails, with which it would be lost. Two active rails, one standby rail and 2 QPs: rails 0 1 0 1,
// standby 2.
PairPlan plan_sender_pairs(size_t active, size_t standby, int qps_per_rail, ListenerRails peer);

// The receiver's plan for the pairs of a hello: active pairs take its active rails in turn, standby
// pairs its standby rails in turn; where it has none, its active ones, the last one first. There a
// standby pair has no QP if it would be between the two rails of another pair. None has a QP to
// which the sender has none.
PairPlan plan_receiver_pairs(size_t active, size_t standby, const wire::EndPoint& sender);

// Why rails of an end could not be created, by rail.
using RailErrors = std::map<size_t, Error>;

// The plan of an end that goes without the rails in `missing`: active pairs of them take the active
// rails that are left in turn, or the standby rails where none is; standby pairs of them have no
// QP. All other pairs stay where they are, and so still meet the rails of the peer that they are
// meant for. One rail at least is left.
PairPlan plan_without(PairPlan plan, size_t active, size_t standby, const RailErrors& missing);

// How many pairs of the plan are active.
int active_pairs(const PairPlan& plan);

// How many QPs the plan has on a rail.
int pairs_on_rail(const PairPlan& plan, uint32_t rail);

}  // namespace gdr::transport
