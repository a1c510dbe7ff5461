// What a Recovery shows of its pairs and rails.
#include "transport/recovery/recovery.h"

namespace gdr::transport {

std::vector<RailUse> Recovery::rail_use() const {
  std::lock_guard lock(mutex_);
  std::vector<RailUse> all;
  if (closed_) return all;  // the rails may not exist any more
  for (uint32_t rail = 0; rail < io_.rails().size(); ++rail) {
    const RailCounters& counters = counters_[rail];
    all.push_back({.port = to_string(io_.rails()[rail].device()),
                   .bytes = counters.bytes.load(std::memory_order_relaxed),
                   .chunks = counters.chunks.load(std::memory_order_relaxed),
                   .losses = counters.losses.load(std::memory_order_relaxed),
                   .returns = counters.returns.load(std::memory_order_relaxed)});
  }
  return all;
}

std::string Recovery::state_text() const {
  std::lock_guard lock(mutex_);
  std::string text;
  if (closed_) return text;  // the rails may not exist any more
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const PairAgreement& agreement = pairs_[i].agreement;
    if (agreement.usable()) continue;
    const bool peers = agreement.cause().reason == wire::PairReason::kPeer;
    text += (text.empty() ? ", lost: " : "; ") + io_.path_text(i) + " (" +
            to_string(agreement.cause()) + (peers ? ": " + to_string(agreement.peer_cause()) : "") +
            "), " + awaited_text(i);
  }
  for (uint32_t rail = 0; rail < io_.rails().size(); ++rail) {
    if (!port_down_[rail] || !is_used(rail)) continue;
    text += (text.empty() ? ", " : "; ") + to_string(io_.rails()[rail].device()) +
            ": its port is down, the HCA retries";
  }
  return text;
}

bool Recovery::is_used(uint32_t rail) const {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.rail(i) == rail && pairs_[i].agreement.usable()) return true;
  }
  return false;
}

// What a pair that is not usable waits for.
std::string Recovery::awaited_text(uint32_t index) const {
  const Pair& pair = pairs_[index];
  const PairAgreement& agreement = pair.agreement;
  if (agreement.awaits_probe()) return "connected again, its probe has not come through yet";
  if (!agreement.lost()) return "connected again at this end, but not at the peer yet";
  if (!agreement.recovered()) return "the ends have not agreed yet on what has arrived";
  if (!may_return(pair)) return "not used again";
  if (!is_finished(pair) || !pair.drained) return "NCCL has not used it since";
  if (port_down_[io_.rail(index)]) return "its port is down at this end";
  return pair.reviving ? "being connected again" : "tried again from time to time";
}

}  // namespace gdr::transport
