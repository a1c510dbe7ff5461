#include "transport/watch/watched_links.h"

#include <algorithm>
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

}  // namespace gdr::transport
