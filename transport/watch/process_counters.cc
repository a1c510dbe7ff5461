#include "transport/watch/process_counters.h"

#include <algorithm>

namespace gdr::transport {

void ProcessCounters::open(std::shared_ptr<const PeerLink> link,
                           std::shared_ptr<const Recovery> recovery,
                           const std::vector<RailName>& rails, DataDirection direction) {
  std::lock_guard lock(mutex_);
  for (const RailName& rail : rails) closed_.rails.try_emplace(rail);
  const PeerLink* key = link.get();
  // While a job starts, links mostly get higher and higher addresses.
  open_.insert_or_assign(open_.end(), key,
                         Open{std::move(link), std::move(recovery), rails, direction});
}

void ProcessCounters::close(const PeerLink* link) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(link);
  if (found == open_.end()) return;
  add(found->second, &closed_);
  open_.erase(found);
}

uint64_t ProcessCounters::connections() const {
  std::lock_guard lock(mutex_);
  return open_.size();
}

void ProcessCounters::add(const Open& open, ProcessSums* sums) {
  const auto direction = static_cast<size_t>(open.direction);
  for (uint32_t i = 0; i < open.rails.size(); ++i) {
    RailSums& rail = sums->rails[open.rails[i]];
    RailSums::Moved& moved = rail.moved[direction];
    const RailCounters& counters = open.recovery->counters(i);
    moved.bytes += counters.bytes.load(std::memory_order_relaxed);
    moved.messages += counters.chunks.load(std::memory_order_relaxed);
    rail.losses += counters.losses.load(std::memory_order_relaxed);
    rail.returns += counters.returns.load(std::memory_order_relaxed);
  }
  if (open.link->failed()) ++sums->failed;
}

ProcessSums ProcessCounters::read() {
  std::lock_guard lock(mutex_);
  ProcessSums sums = closed_;
  for (auto& [link, open] : open_) add(open, &sums);
  sums.connections = open_.size();
  sums.stalls = stalls_.load(std::memory_order_relaxed);
  return sums;
}

}  // namespace gdr::transport
