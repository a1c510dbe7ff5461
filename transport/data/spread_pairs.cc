#include "transport/data/spread_pairs.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace gdr::transport {
namespace {

using Path = std::pair<uint32_t, uint32_t>;  // a rail of this end, and one of the peer's

std::vector<Path> paths_of(const RailSet& rails) {
  std::vector<Path> paths;
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    const Path path{rails.pair(i).rail, rails.pair(i).peer_rail};
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
  }
  return paths;
}

// Bytes per second.
std::vector<double> port_speeds(const RailSet& rails) {
  std::vector<double> speeds;
  for (const Path& path : paths_of(rails)) {
    speeds.push_back(rails[path.first].device().speed_mbps * 1e6 / 8);
  }
  return speeds;
}

}  // namespace

SpreadPairs::SpreadPairs(const RailSet& rails) : load_(port_speeds(rails)), turn_(load_.size()) {
  const std::vector<Path> paths = paths_of(rails);
  std::bitset<wire::kMaxRails * wire::kMaxRails> active;
  for (const Path& path : paths) rails_.push_back(path.first);
  pairs_.reserve(rails.pair_count());
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    const QueuePair& qp = rails.pair(i);
    // Beyond what may be outstanding, the chunks of a message of which the pair was lost half-way.
    SpreadPair& pair = pairs_.emplace_back(qp, std::min(qp.send_entries, kChunks) + wire::kMaxQps);
    const auto path = std::ranges::find(paths, Path{qp.rail, qp.peer_rail});
    pair.path = static_cast<uint32_t>(path - paths.begin());
    if (pair.standby) continue;
    if (active.none()) first_active_ = &pair;
    active.set(pair.path);
    ++active_pairs_;
  }
  active_usable_ = active_pairs_;
  active_paths_ = static_cast<uint32_t>(active.count());
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

std::optional<uint32_t> SpreadPairs::choose(size_t bytes, uint32_t work_requests, Time now) {
  if (choice_needs_time()) return choose_by_load(bytes, work_requests, now);
  return next_in_turn(first_active_->path, work_requests);
}

SpreadPair* SpreadPairs::next_active() {
  const std::optional<uint32_t> next = next_in_turn(first_active_->path, 1);
  return next ? &pairs_[*next] : nullptr;
}

std::optional<uint32_t> SpreadPairs::next_in_turn(size_t path, uint32_t work_requests) {
  const auto count = static_cast<uint32_t>(pairs_.size());
  uint32_t next = turn_[path];
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t i = next < count ? next : next - count;
    next = i + 1;
    const SpreadPair& pair = pairs_[i];
    if (pair.path != path || !carries_data(pair) || !has_room(pair, work_requests)) continue;
    turn_[path] = next;
    return i;
  }
  return {};
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

std::optional<uint32_t> SpreadPairs::choose_by_load(size_t bytes, uint32_t work_requests,
                                                    Time now) {
  uint64_t paths = 0;
  for (const SpreadPair& pair : pairs_) {
    if (!carries_data(pair) || !has_room(pair, work_requests)) continue;
    paths |= uint64_t{1} << pair.path;
  }
  if (paths == 0) return {};
  return next_in_turn(load_.choose(bytes, paths, now), work_requests);
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
