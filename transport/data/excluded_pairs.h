// The pairs that a connection is made without.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/data/connection_end.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

// A connection that recovers goes without pairs that cannot be connected, as long as one is left.
class ExcludedPairs {
 public:
  // Outlives it.
  explicit ExcludedPairs(const ConnectionEnd& end) : end_(end) {}

  const std::vector<LostAtStart>& all() const { return excluded_; }
  bool has(size_t pair) const;
  // Goes on without a pair, or returns its error where it is the last one or cannot be spared.
  Status exclude(uint32_t pair, Error error, PairCause cause = {wire::PairReason::kNotConnected});
  // The same for all pairs of a rail, on which something could not be created. Warns of it.
  Status exclude_rail(uint32_t rail, const Error& error);
  // Where this end or the peer has no QP for the pair.
  Status exclude_without_qp(uint32_t pair);
  // Those whose rail could not be created, but for the last one. They are between rails that the
  // fabric need not connect, so that they are used only once a probe has come through, like pairs
  // that return. Without recovery there are no probes.
  void exclude_displaced(const std::vector<uint32_t>& displaced);
  void forget(uint32_t pair);
  void clear() { excluded_.clear(); }

 private:
  void log(uint32_t pair, const Error& why, bool warns) const;

  const ConnectionEnd& end_;
  std::vector<LostAtStart> excluded_;
};

}  // namespace gdr::transport
