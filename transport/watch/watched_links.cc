#include "transport/watch/watched_links.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace gdr::transport {

void WatchedLinks::add(WatchedLink watched) {
  const int fd = watched.link->fd();
  std::lock_guard lock(mutex_);
  for (const WatchedRail& rail : watched.rails) closed_.rails.try_emplace(rail.name);
  // The newest descriptor is mostly the highest.
  links_.insert_or_assign(links_.end(), fd, std::move(watched));
}

void WatchedLinks::remove(const PeerLink& link) {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(link.fd());
  if (found == links_.end()) return;
  add(found->second, &closed_);
  links_.erase(found);
}

std::shared_ptr<PeerLink> WatchedLinks::find(int fd) const {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(fd);
  return found == links_.end() ? nullptr : found->second.link;
}

std::vector<std::shared_ptr<PeerLink>> WatchedLinks::all() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<PeerLink>> all;
  for (const auto& [fd, watched] : links_) all.push_back(watched.link);
  return all;
}

std::vector<std::shared_ptr<Recovery>> WatchedLinks::recoveries() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Recovery>> all;
  for (const auto& [fd, watched] : links_) {
    if (watched.recovery != nullptr) all.push_back(watched.recovery);
  }
  return all;
}

std::vector<WatchedLink> WatchedLinks::with(
    const std::function<bool(const WatchedRail& rail)>& is_concerned) const {
  std::lock_guard lock(mutex_);
  std::vector<WatchedLink> concerned;
  for (const auto& [fd, watched] : links_) {
    if (std::ranges::any_of(watched.rails, is_concerned)) concerned.push_back(watched);
  }
  return concerned;
}

size_t WatchedLinks::size() const {
  std::lock_guard lock(mutex_);
  return links_.size();
}

void WatchedLinks::add(const WatchedLink& watched, ProcessSums* sums) {
  for (uint32_t i = 0; watched.recovery != nullptr && i < watched.rails.size(); ++i) {
    RailSums& rail = sums->rails[watched.rails[i].name];
    RailSums::Moved& moved = watched.sends ? rail.sent : rail.received;
    const RailCounters& counters = watched.recovery->counters(i);
    moved.bytes += counters.bytes.load(std::memory_order_relaxed);
    moved.messages += counters.chunks.load(std::memory_order_relaxed);
    rail.losses += counters.losses.load(std::memory_order_relaxed);
    rail.returns += counters.returns.load(std::memory_order_relaxed);
  }
  if (watched.link->failed()) ++sums->failed;
}

ProcessSums WatchedLinks::sums() const {
  std::lock_guard lock(mutex_);
  ProcessSums sums = closed_;
  for (const auto& [fd, watched] : links_) add(watched, &sums);
  sums.connections = links_.size();
  return sums;
}

void RecoveryRunner::tick(Clock::time_point now, bool all) {
  const std::vector<std::shared_ptr<Recovery>> some = links_.recoveries();
  next_ = Clock::time_point::max();
  for (const auto& recovery : some) {
    if (all || recovery->steps().deadline() <= now)
      have_made(recovery, recovery->steps().on_tick(now));
    next_ = std::min(next_, recovery->steps().deadline());
  }
}

void RecoveryRunner::have_made(const std::shared_ptr<Recovery>& recovery,
                               RecoverySteps::Due due) try {
  for (; due.stops != 0; due.stops &= due.stops - 1) {
    const int rail = std::countr_zero(due.stops);
    BlockingCalls& stopper = stoppers_.try_emplace(due.hcas[rail], "gdr-stopper").first->second;
    stopper.add([recovery, rail] { recovery->steps().stop_pairs(1u << rail); });
  }
  for (; due.revives != 0; due.revives &= due.revives - 1) {
    const int rail = std::countr_zero(due.revives);
    BlockingCalls& reviver = revivers_.try_emplace(due.hcas[rail], "gdr-reviver").first->second;
    reviver.add([recovery, rail] { recovery->steps().revive_pairs(Clock::now(), 1u << rail); });
  }
} catch (const std::exception&) {
  recovery->steps().take_back(due);
  throw;
}

}  // namespace gdr::transport
