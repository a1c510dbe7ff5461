#include "transport/data/rail_log.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "transport/data/failure_log.h"

namespace gdr::transport {
namespace {

// How long losses and returns are collected for one line.
constexpr std::chrono::seconds kCollected{1};
// Losses that follow each other more closely are one episode; and the pause between warnings.
constexpr std::chrono::seconds kRailEpisode{60};

}  // namespace

void RailLog::lost(const RailLoss& loss, Clock::time_point now) {
  Lines lines;
  {
    std::lock_guard lock(mutex_);
    Port& port = ports_[loss.port];
    if (port.back) {
      take_losses(port, &lines);
      take_return(loss.port, port, &lines);
    }
    port.lost_peers.try_emplace(loss.peer, now);
    port.losses.try_emplace(loss.effect, Loss{now, {}}).first->second.all.add(loss);
    update_deadline();
  }
  write(lines);
}

// The first connection that uses it again counts.
void RailLog::returned(const std::string& port_name, const std::string& peer,
                       Clock::time_point now) {
  std::lock_guard lock(mutex_);
  Port& port = ports_[port_name];
  const auto lost = port.lost_peers.find(peer);
  if (lost == port.lost_peers.end()) return;
  if (!port.back) port.back = Return{now, {}, {}};
  port.back->away = std::max(port.back->away, now - lost->second);
  port.back->peers.push_back(peer);
  port.lost_peers.erase(lost);
  update_deadline();
}

void RailLog::late(const std::string& port_name, const std::string& peer,
                   std::chrono::milliseconds lateness, Clock::time_point now) {
  int times = 0;
  {
    std::lock_guard lock(mutex_);
    Port& port = ports_[port_name];
    ++port.late_times;
    if (port.late_warned_at && now - *port.late_warned_at < kLateEpisode) return;
    port.late_warned_at = now;
    times = std::exchange(port.late_times, 0);
  }
  const std::string text = late_rail_text(port_name, peer, lateness, times);
  GDR_WARN("%s", text.c_str());
}

void RailLog::stays_lost(const std::string& port, const std::string& peer,
                         const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(ports_[port].stays_lost, true)) return;
  }
  GDR_WARN("%s", stays_lost_text(port, peer, reason).c_str());
}

void RailLog::on_tick(Clock::time_point now) {
  Lines lines;
  {
    std::lock_guard lock(mutex_);
    for (auto& [name, port] : ports_) {
      const bool due = std::ranges::any_of(
          port.losses, [&](const auto& loss) { return now - kCollected >= loss.second.since; });
      const bool back = port.back && now - kCollected >= port.back->since;
      if (due || back) take_losses(port, &lines);
      if (back) take_return(name, port, &lines);
    }
    update_deadline();
  }
  write(lines);
}

void RailLog::update_deadline() {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [name, port] : ports_) {
    for (const auto& [effect, loss] : port.losses) next = std::min(next, loss.since + kCollected);
    if (port.back) next = std::min(next, port.back->since + kCollected);
  }
  deadline_.store(next.time_since_epoch().count(), std::memory_order_relaxed);
}

void RailLog::write(const Lines& lines) {
  for (const Line& line : lines) {
    if (line.level == Level::kWarning) {
      GDR_WARN("%s", line.text.c_str());
    } else {
      // NCCL_DEBUG=INFO alone shows the first.
      GDR_INFO(log::kInit | log::kNet, "%s", line.text.c_str());
    }
  }
}

void RailLog::take_losses(Port& port, Lines* lines) {
  for (const auto& [effect, loss] : std::exchange(port.losses, {})) {
    int times = 1;
    const Level level = level_for(port, effect, loss.since, &times);
    if (level != Level::kNone) lines->push_back({level, loss.all.text(times)});
  }
}

void RailLog::take_return(const std::string& name, Port& port, Lines* lines) {
  const Return back = *std::exchange(port.back, std::nullopt);
  port.is_lost = port.stays_lost = false;
  const auto away = std::chrono::duration_cast<std::chrono::milliseconds>(back.away);
  lines->push_back({Level::kInfo, name + " <-> " + ports_text(back.peers) +
                                      ": the rail is used again after " + seconds_text(away)});
}

RailLog::Level RailLog::level_for(Port& port, LossEffect effect, Clock::time_point since,
                                  int* times) {
  const bool again = !std::exchange(port.is_lost, true);
  if (effect == LossEffect::kExplained) return again ? Level::kInfo : Level::kNone;
  const bool worse = port.warned_at && effect > port.warned_of;
  const bool other_connection = !again && port.warned_at && since - port.lost_at < kRailEpisode;
  port.lost_at = since;
  if (other_connection && !worse) return Level::kInfo;
  if (!other_connection) ++port.times;
  if (port.warned_at && since - *port.warned_at < kRailEpisode && !worse) return Level::kInfo;
  port.warned_at = since;
  port.warned_of = effect;
  *times = std::exchange(port.times, 0);
  return Level::kWarning;
}

}  // namespace gdr::transport
