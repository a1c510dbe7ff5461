#include "transport/watch/watched_links.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace gdr::transport {

void WatchedLinks::add(WatchedLink watched) {
  const int fd = watched.link->fd();
  std::lock_guard lock(mutex_);
  // The newest descriptor is mostly the highest.
  links_.insert_or_assign(links_.end(), fd, std::move(watched));
}

void WatchedLinks::remove(const PeerLink& link) {
  std::lock_guard lock(mutex_);
  links_.erase(link.fd());
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

std::vector<WatchedLink> WatchedLinks::with(const EventSource& source) const {
  std::lock_guard lock(mutex_);
  std::vector<WatchedLink> concerned;
  for (const auto& [fd, watched] : links_) {
    if (std::ranges::count(watched.sources, source) > 0) concerned.push_back(watched);
  }
  return concerned;
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
