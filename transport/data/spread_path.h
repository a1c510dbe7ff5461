// The data path of a connection whose pairs are on several rails, or are recovered.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/data/peer_link.h"

namespace gdr::transport {

class RailSet;

// A connection either takes the direct path, over pairs of one rail that are not recovered, or has
// a SpreadPath. It costs the direct path nothing: PeerLink's attention is set for good where there
// is a SpreadPath, and Connection::poll, which looks at that anyway, then calls it.
//
// Most connections have one active rail, and others that stand by. While the active one is well,
// only what the recovery writes now and then completes on the others, and the recovery has nothing
// to report. Such a connection is quiet: most polls look at the active rail's completion queue
// alone, and one in kPollsPerLookAtAll looks at all queues. What has to be noticed at once is in
// the link's attention, which every poll loads.
class SpreadPath {
 public:
  static constexpr uint32_t kPollsPerLookAtAll = 16;
  static constexpr int kPollBatch = 8;  // completions of a rail that are read at a time

  explicit SpreadPath(const RailSet& rails);
  virtual ~SpreadPath() = default;

  // Reads completions and does what follows from them. Returns false when the connection has
  // failed.
  bool progress(const PeerLink& link) {
    if (quiet_left_ == 0 || !link.is_quiet()) return progress_fully();
    --quiet_left_;
    ibv_wc completions[kPollBatch];
    const int count = ibv_poll_cq(quiet_cq_, kPollBatch, completions);
    if (count == 0) return true;
    return count > 0 ? take(completions, count) : progress_fully();
  }

 protected:
  // What progress() does on a connection that is not quiet: on all rails.
  virtual bool progress_fully() = 0;
  // Takes completions of the active rail of a quiet connection.
  virtual bool take(const ibv_wc* completions, int count) = 0;

  // Whether the polls to come may be those of a quiet connection: nothing is outstanding but on the
  // active rail, all pairs of which are usable, and nothing waits for anything but a completion.
  void set_quiet(bool quiet) {
    quiet_left_ = quiet && quiet_cq_ != nullptr ? kPollsPerLookAtAll - 1 : 0;
  }

 private:
  ibv_cq* quiet_cq_ = nullptr;  // of the only active rail; null: there are several
  uint32_t quiet_left_ = 0;     // polls until the next one that looks at everything
};

}  // namespace gdr::transport
