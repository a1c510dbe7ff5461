#include "transport/pairs/unreachable_paths.h"

#include <algorithm>

#include "transport/device/gid_selection.h"

namespace gdr::transport {
namespace {

std::string key_of(const wire::RailAddress& local) {
  return std::string(local.hca) + ":" + std::to_string(local.port);
}

}  // namespace

bool UnreachablePaths::contains(const wire::RailAddress& local, const wire::RailAddress& remote,
                                Clock::time_point now, bool urgent) {
  std::lock_guard lock(mutex_);
  const auto found = unreachable_.find(key_of(local));
  if (found == unreachable_.end()) return false;
  std::vector<Peer>& peers = found->second;
  std::erase_if(peers, [now](const Peer& peer) { return now - peer.since >= kHold; });
  const auto same = std::ranges::find(peers, remote.gid, &Peer::gid);
  if (urgent) return same != peers.end() && now - same->since < kUrgentHold;
  const auto in_subnet = static_cast<size_t>(std::ranges::count_if(peers, [&](const Peer& peer) {
    return peer.counts && is_same_subnet(peer.gid, remote.gid);
  }));
  return in_subnet >= kPeersForSubnet || same != peers.end();
}

void UnreachablePaths::add(const wire::RailAddress& local, const wire::RailAddress& remote,
                           Clock::time_point now) {
  std::lock_guard lock(mutex_);
  std::vector<Peer>& peers = unreachable_[key_of(local)];
  std::erase_if(peers, [&](const Peer& peer) { return peer.gid == remote.gid; });
  peers.push_back({remote.gid, now});
}

void UnreachablePaths::remove(const wire::RailAddress& local, const wire::RailAddress& remote) {
  std::lock_guard lock(mutex_);
  const auto found = unreachable_.find(key_of(local));
  if (found == unreachable_.end()) return;
  std::erase_if(found->second, [&](const Peer& peer) { return peer.gid == remote.gid; });
  for (Peer& peer : found->second) {
    if (is_same_subnet(peer.gid, remote.gid)) peer.counts = false;
  }
}

}  // namespace gdr::transport
