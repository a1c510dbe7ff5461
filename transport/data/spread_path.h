// Which completion queues a poll of the data path looks at.
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "transport/link/peer_link.h"
#include "transport/pairs/rail_set.h"

namespace gdr::transport {

// What both ends of a connection have for their polls.
//
// Most connections have one active rail, and others that stand by. While the active one is well,
// only what the recovery writes now and then completes on the others, and the recovery has nothing
// to report. Such a connection is quiet: most polls look at the active rail's completion queue
// alone, and one in kPollsPerLookAtAll looks at all queues, if there are others. What has to be
// noticed at once is in the link's attention, which every poll loads.
class SpreadPath {
 public:
  static constexpr int32_t kPollsPerLookAtAll = 64;
  static constexpr int kPollBatch = 8;  // completions of a rail that are read at a time

  explicit SpreadPath(const RailSet& rails)
      : quiet_polls_(rails.size() > 1 ? kPollsPerLookAtAll - 1
                                      : std::numeric_limits<int32_t>::max()) {
    uint32_t active = 0;  // bit per rail
    for (size_t i = 0; i < rails.pair_count(); ++i) {
      if (!rails.pair(i).standby) active |= 1u << rails.pair(i).rail;
    }
    if (std::has_single_bit(active)) {
      quiet_cq_ = rails[static_cast<size_t>(std::countr_zero(active))].cq();
    }
  }

  // Counts a poll. Returns whether it may look at the active rail alone.
  [[gnu::always_inline]] bool is_quiet(const PeerLink& link) {
    return --quiet_left_ >= 0 && !link.needs_attention();
  }
  // Reads up to kPollBatch completions of that rail. Returns how many; -1 where all rails have to
  // be looked at.
  [[gnu::always_inline]] int poll_quietly(const PeerLink& link, ibv_wc* completions) {
    return is_quiet(link) ? ibv_poll_cq(quiet_cq_, kPollBatch, completions) : -1;
  }

 protected:
  // Whether the polls to come may be those of a quiet connection: nothing is outstanding but on the
  // active rail, all pairs of which are usable, and nothing waits for anything but a completion.
  // Returns whether they may.
  bool set_quiet(bool quiet) {
    quiet = quiet && quiet_cq_ != nullptr;
    quiet_left_ = quiet ? quiet_polls_ : 0;
    return quiet;
  }

 private:
  ibv_cq* quiet_cq_ = nullptr;  // of the only active rail; null: there are several
  int32_t quiet_polls_;         // between two that look at everything
  int32_t quiet_left_ = 0;      // until the next such one
};

}  // namespace gdr::transport
