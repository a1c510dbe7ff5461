#include "transport/pairs/rail_load.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace gdr::transport {
namespace {

using Seconds = std::chrono::duration<double>;

// Where no port's speed is known: 200 Gb/s. Only the ratio between the paths matters.
constexpr double kUnknownSpeed = 25e9;
// Bytes by which a speed is measured. Older ones count less.
constexpr double kMeasuredBytes = 4 << 20;
// As what the port's speed counts in the measurement.
constexpr double kGuessedBytes = 256 << 10;
// A measured speed may be beyond that of the fastest port, as where both ends are in one machine;
// what goes further comes from completions that were found together.
constexpr double kMostOfPort = 8;
// What the round trip of the first chunk after a pause may take.
constexpr double kRoundTrip = 5e-6;
// Delays below this are equal: a completion is found with as much uncertainty.
constexpr double kLeastDelay = 2e-6;
// Paths whose delay is within this share of the best one's take turns, if their speed is within the
// other: a short message never takes the slower one of two idle rails.
constexpr double kSimilarDelay = 1 + 1.0 / 16;
constexpr double kSimilarSpeed = 0.75;
// Shorter chunks take as long as their overhead, and say nothing of a path's speed.
constexpr size_t kLeastMeasured = 16 << 10;
// How many times longer than its last chunk took a path has to be idle before it is retried.
// A lateness is forgotten in as many times its length.
constexpr double kPatience = 64;
// A chunk is late by what it takes beyond this many times what its path's speed explains.
constexpr double kLateTolerance = 1.25;
// On a path that was late, a chunk that takes so many times longer than it would on the fastest
// path is late whatever its path's speed explains: that speed is then the mean of its latenesses.
// What takes fewer seconds is the latency of a chunk that is sent alone, not a timeout: HCAs wait
// for 4 us * 2^timeout, and a timeout of 13 is short.
constexpr double kUselessShare = 16;
constexpr double kLeastUseless = 10e-3;
// For how many times its length a lateness is remembered while the path is in use: where chunks are
// late more rarely, the path is worth more than what they cost.
constexpr double kLateMemory = 4;
// How many times the lateness of a path is added to its delay.
constexpr double kLateWeight = 4;
// A chunk that comes in time takes this part off the lateness: one over this.
constexpr int kLateParts = 8;
// How many chunks in turn have to come in time, one at a time, before a path that was late is
// trusted. Where a try is late, so many more, up to the most; each time the pause is doubled.
constexpr uint32_t kTries = 4;
constexpr uint32_t kMostTries = 12;
// A path that is trusted again is like any other once so many chunks may be outstanding on it.
constexpr uint32_t kWholeWindow = 32;
// No pause before a try is longer, in seconds: a rail whose lateness is that of a long
// NCCL_IB_TIMEOUT would stay unused for many minutes after it has become healthy.
constexpr double kLongestTrialPause = 60;

RailLoad::Time::duration ticks(double seconds) {
  return std::chrono::duration_cast<RailLoad::Time::duration>(Seconds(seconds));
}

}  // namespace

RailLoad::RailLoad(const std::vector<double>& port_speeds) : paths_(port_speeds.size()) {
  const double fastest = *std::max_element(port_speeds.begin(), port_speeds.end());
  fastest_port_ = fastest > 0 ? fastest : kUnknownSpeed;
  for (size_t i = 0; i < paths_.size(); ++i) {
    paths_[i].port_speed = port_speeds[i] > 0 ? port_speeds[i] : fastest_port_;
    restart(i);
  }
}

void RailLoad::restart(size_t index) {
  Path& path = paths_[index];
  path.bytes = kGuessedBytes;
  path.seconds = kGuessedBytes / path.port_speed;
  path.last_chunk = 0;
  path.late_until = path.remembered_until = {};
  path.distrust = path.window = 0;
  path.reported = false;
  path.last_pace = 0;
}

void RailLoad::post(size_t index, size_t bytes, Time now) {
  Path& path = paths_[index];
  if (path.chunks == 0) {
    path.since = path.found = now;
    path.after_pause = true;
  }
  path.unacknowledged += bytes;
  ++path.chunks;
}

void RailLoad::acknowledge(size_t index, size_t bytes, Time now) {
  Path& path = paths_[index];
  const Time came = std::min(std::max(path.since, path.polled_at), now);
  if (bytes >= kLeastMeasured) measure(path, static_cast<double>(bytes), came, now);
  path.after_pause = false;
  path.since = came;
  path.found = now;
  drop(index, bytes);
}

void RailLoad::drop(size_t index, size_t bytes) {
  Path& path = paths_[index];
  path.unacknowledged -= bytes;
  --path.chunks;
}

void RailLoad::measure(Path& path, double bytes, Time came, Time now) {
  judge(path, bytes, Seconds(came - path.found).count(), now);
  double seconds = Seconds(came - path.since).count();
  if (path.after_pause) seconds = std::max(0.0, seconds - kRoundTrip);
  path.bytes += bytes;
  path.seconds += seconds;
  path.last_chunk = bytes;
  const double excess = path.bytes / std::max(kMeasuredBytes, 4 * bytes);
  if (excess <= 1) return;
  path.bytes /= excess;
  path.seconds /= excess;
}

void RailLoad::judge(Path& path, double bytes, double seconds, Time now) {
  if (now <= path.found) return;  // it waited behind one that was found with it
  const double pace = std::max(path.seconds / path.bytes, path.last_pace);
  double late = seconds - kLateTolerance * pace * bytes;
  if (is_on_trial(path) && seconds > kLeastUseless &&
      seconds * trusted_speed() > kUselessShare * bytes) {
    late = seconds;
  }
  if (late > 0) {
    note_late(path, late, now);
  } else {
    note_in_time(path, now);
  }
  path.last_pace = seconds / bytes;
}

double RailLoad::trusted_speed() const {
  double fastest = 0;
  for (const Path& path : paths_) {
    if (is_on_trial(path) || path.last_chunk == 0 || path.seconds <= 0) continue;
    fastest = std::max(fastest, path.bytes / path.seconds);
  }
  return std::min(fastest, kMostOfPort * fastest_port_);
}

void RailLoad::note_in_time(Path& path, Time now) {
  if (path.late_until > now) path.late_until -= (path.late_until - now) / kLateParts;
  if (path.distrust > 0) {
    if (--path.distrust == 0) path.window = 1;
  } else if (path.window > 0) {
    path.window *= 2;
    if (path.window >= kWholeWindow) {
      path.window = 0;
      path.reported = false;
    }
  }
}

// The first two late chunks count as the one that was less late. Chunks that were under way
// together are one try. Time in which the path is avoided does not make it forget.
void RailLoad::note_late(Path& path, double seconds, Time now) {
  const double before = Seconds(path.remembered_until - now).count() / kLateMemory;
  const bool was_late = is_on_trial(path);
  if (was_late || before > 0) {
    path.lateness = was_late ? seconds : std::min(seconds, before);
    path.window = 0;
    if (was_late && seconds > kLeastUseless && !std::exchange(path.reported, true)) {
      late_paths_ |= uint64_t{1} << (&path - paths_.data());
    }
    if (path.distrust == 0 || path.chunks == 1) {
      path.distrust = std::min(path.distrust + kTries, kMostTries);
    }
    const uint32_t doublings = (path.distrust - 1) / kTries;
    const double pause = kPatience * path.lateness * (1u << doublings);
    const Time until = now + ticks(std::min(pause, kLongestTrialPause));
    path.late_until = std::max(path.late_until, until);
  }
  const Time until = std::max(now, path.late_until) + ticks(kLateMemory * seconds);
  path.remembered_until = std::max(path.remembered_until, until);
}

// The time in which polls have found nothing counts where it is longer than it should be: a rail
// that stops must not keep the speed that it had.
double RailLoad::speed(size_t index) const {
  const Path& path = paths_[index];
  const double least = path.bytes / (kMostOfPort * fastest_port_);
  const double measured = path.bytes / std::max(path.seconds, least);
  if (path.chunks == 0) return measured;
  const double waiting =
      Seconds(path.polled_at - path.since).count() - (path.after_pause ? kRoundTrip : 0);
  const double head = static_cast<double>(path.unacknowledged) / path.chunks;
  if (waiting * measured <= head) return measured;
  return (path.bytes + head) / (std::max(path.seconds, least) + waiting);
}

bool RailLoad::is_full(const Path& path) {
  if (path.distrust > 0) return path.chunks > 0;
  return path.window > 0 && path.chunks >= path.window;
}

double RailLoad::delay(size_t index, size_t bytes, Time now) const {
  const Path& path = paths_[index];
  double seconds = static_cast<double>(path.unacknowledged + bytes) / speed(index);
  if (path.late_until > now) {
    seconds += kLateWeight * Seconds(path.late_until - now).count() / kPatience;
  }
  if (is_full(path)) seconds += kLateWeight * path.lateness;
  return std::max(seconds, kLeastDelay);
}

// What is measured next then counts more than what was measured before.
void RailLoad::retry_if_idle(Path& path, Time now) {
  if (path.chunks > 0 || path.last_chunk == 0) return;
  const double speed = path.bytes / std::max(path.seconds, std::numeric_limits<double>::min());
  const double patience = kPatience * path.last_chunk / speed;
  if (speed >= fastest_port_ || Seconds(now - path.since).count() < patience) return;
  path.bytes = path.last_chunk / 4;
  path.seconds = path.bytes / std::min(2 * speed, fastest_port_);
  path.since = now;
}

size_t RailLoad::choose(size_t bytes, uint64_t usable, Time now) {
  if (std::has_single_bit(usable)) return static_cast<size_t>(std::countr_zero(usable));
  std::array<double, 64> delays;
  double best = std::numeric_limits<double>::max();
  for (size_t i = 0; i < paths_.size(); ++i) {
    if ((usable >> i & 1) == 0) continue;
    if (bytes >= kLeastMeasured) retry_if_idle(paths_[i], now);
    delays[i] = delay(i, bytes, now);
    best = std::min(best, delays[i]);
  }
  uint64_t similar = 0;
  double fastest = 0;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if ((usable >> i & 1) == 0 || delays[i] > best * kSimilarDelay) continue;
    similar |= uint64_t{1} << i;
    fastest = std::max(fastest, speed(i));
  }
  for (size_t n = 0; n < paths_.size(); ++n) {
    const size_t i = (turn_ + n) % paths_.size();
    if ((similar >> i & 1) == 0 || speed(i) < fastest * kSimilarSpeed) continue;
    turn_ = (i + 1) % paths_.size();
    return i;
  }
  return 0;  // not reached: the fastest of them is similar to itself
}

}  // namespace gdr::transport
