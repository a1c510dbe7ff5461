#include "transport/data/spread_pairs.h"

#include <algorithm>
#include <bit>

namespace gdr::transport {
namespace {

// Whether a path takes the rails of the pair, at both ends.
auto is_path_of(const QueuePair& qp) {
  return [&qp](const auto& path) { return path.rail == qp.rail && path.peer_rail == qp.peer_rail; };
}

}  // namespace

std::vector<SpreadPairs::Path> SpreadPairs::paths_of(const RailSet& rails) {
  std::vector<Path> paths;
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    const QueuePair& qp = rails.pair(i);
    if (std::ranges::none_of(paths, is_path_of(qp))) paths.push_back({qp.rail, qp.peer_rail});
  }
  return paths;
}

// Bytes per second.
std::vector<double> SpreadPairs::port_speeds(const RailSet& rails, const std::vector<Path>& paths) {
  std::vector<double> speeds;
  for (const Path& path : paths) speeds.push_back(rails[path.rail].device().speed_mbps * 1e6 / 8);
  return speeds;
}

SpreadPairs::SpreadPairs(const RailSet& rails, Recovery& recovery)
    : paths_(paths_of(rails)), load_(port_speeds(rails, paths_)) {
  uint64_t active = 0;  // bit per path
  pairs_.reserve(rails.pair_count());
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    const QueuePair& qp = rails.pair(i);
    // Beyond what may be outstanding, the chunks of a message of which the pair was lost half-way.
    const size_t most = std::min(qp.send_entries, kChunks) + wire::kMaxQps;
    SpreadPair& pair = pairs_.emplace_back(qp, recovery, most);
    const auto path = std::ranges::find_if(paths_, is_path_of(qp));
    pair.path = static_cast<uint32_t>(path - paths_.begin());
    if (pair.standby) continue;
    if (active == 0) first_active_ = &pair;
    active |= uint64_t{1} << pair.path;
    ++active_pairs_;
  }
  active_usable_ = active_pairs_;
  active_paths_ = static_cast<uint32_t>(std::popcount(active));
  for (SpreadPair& pair : pairs_) pair.is_measured = active_paths_ > 1 || pair.standby;
}

uint32_t SpreadPairs::queue_depth() const {
  uint32_t least = kChunks;
  for (const SpreadPair& pair : pairs_) {
    if (pair.depth() > 0) least = std::min(least, pair.depth());
  }
  return least;
}

void SpreadPairs::report_late_paths(Recovery& recovery) {
  uint64_t late = load_.take_late_paths();
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const uint32_t path = pairs_[i].path;
    if ((late >> path & 1) == 0) continue;
    late &= ~(uint64_t{1} << path);
    const bool is_avoided = std::ranges::any_of(pairs_, [&](const SpreadPair& pair) {
      return pair.path != path && carries_data(pair) && !load_.is_on_trial(pair.path);
    });
    if (!is_avoided) continue;
    const std::chrono::duration<double> lateness(load_.lateness(path));
    recovery.on_late_chunks(i, std::chrono::duration_cast<std::chrono::milliseconds>(lateness));
  }
}

SpreadPair* SpreadPairs::choose(size_t bytes, uint32_t work_requests, Time now) {
  const std::optional<size_t> path =
      choice_needs_time() ? choose_path(bytes, work_requests, now) : first_active_->path;
  if (!path) return nullptr;
  const auto count = static_cast<uint32_t>(pairs_.size());
  uint32_t next = paths_[*path].turn;
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t i = next < count ? next : next - count;
    next = i + 1;
    SpreadPair& pair = pairs_[i];
    if (pair.path != *path || !carries_data(pair) || !has_room(pair, work_requests)) continue;
    paths_[*path].turn = next;
    return &pair;
  }
  return nullptr;
}

// A chunk of a pair that is lost waits with the others of the pair.
void SpreadPairs::measure_push(const SpreadPair& pair, size_t bytes, Time now) {
  if (pair.state != PairState::kUsable) return;
  on_standby_ += pair.standby ? 1 : 0;
  load_.post(pair.path, bytes, now);
}

void SpreadPairs::measure_acknowledged(const SpreadPair& pair, size_t bytes, Time now) {
  if (pair.state != PairState::kUsable) return;
  on_standby_ -= pair.standby ? 1 : 0;
  load_.acknowledge(pair.path, bytes, now);
}

std::optional<size_t> SpreadPairs::choose_path(size_t bytes, uint32_t work_requests, Time now) {
  uint64_t paths = 0;
  for (const SpreadPair& pair : pairs_) {
    if (carries_data(pair) && has_room(pair, work_requests)) paths |= uint64_t{1} << pair.path;
  }
  if (paths == 0) return {};
  return load_.choose(bytes, paths, now);
}

bool SpreadPairs::has_room(uint32_t chunks, uint32_t work_requests) const {
  uint32_t room = 0;
  for (const SpreadPair& pair : pairs_) {
    if (!carries_data(pair)) continue;
    const auto places = static_cast<uint32_t>(kChunks - pair.sent.size());
    room += std::min(places, pair.free / work_requests);
  }
  return room >= chunks;
}

void SpreadPairs::lose(uint32_t index) {
  SpreadPair& pair = pairs_[index];
  pair.state = PairState::kLost;
  if (pair.standby) {
    on_standby_ -= static_cast<uint32_t>(pair.sent.size());
  } else {
    --active_usable_;
  }
  for (uint64_t n = pair.sent.acknowledged(); pair.is_measured && n < pair.sent.posted(); ++n) {
    load_.drop(pair.path, pair.sent.at(n).bytes);
  }
}

void SpreadPairs::restart(uint32_t index, uint32_t epoch) {
  SpreadPair& pair = pairs_[index];
  pair.state = PairState::kUsable;
  pair.begin_epoch(epoch);
  load_.restart(pair.path);
  if (!pair.standby) ++active_usable_;
}

}  // namespace gdr::transport
