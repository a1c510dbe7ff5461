#include "transport/watch/rail_log.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "transport/link/failure_log.h"

namespace gdr::transport {
namespace {

static_assert(static_cast<int>(LossEffect::kWaits) == kWorstOfAPort);

// How long losses and returns are collected for one line.
constexpr std::chrono::seconds kCollected{1};

// NCCL_DEBUG=INFO alone shows the first line of a loss.
void write_rail_line(bool warns, const std::string& text) {
  if (warns) {
    GDR_WARN("%s", text.c_str());
  } else {
    GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
  }
}

}  // namespace

void RailLog::lost(const RailLoss& loss) {
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  Port& port = ports_[loss.port];
  if (port.back) {
    write_losses(loss.port, port);
    write_return(loss.port, port);
  }
  port.lost_peers.try_emplace(loss.peer, now);
  port.losses.try_emplace(loss.effect, Loss{now, {}}).first->second.all.add(loss);
  update_deadline();
}

// The first connection that uses it again counts.
void RailLog::returned(const std::string& port_name, const std::string& peer) {
  const Clock::time_point now = now_();
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
                   std::chrono::milliseconds lateness) {
  const auto left_out = episodes_.warn("late " + port_name, now_(), 0, true, kLateEpisode);
  if (!left_out) return;
  GDR_WARN(
      "%s <-> %s is avoided: its data is late again and again, at last by %lld ms%s; the other "
      "rails carry it, and the rail is tried from time to time. Likely cause: packets are lost on "
      "the way. Fix: look for the bad cable, transceiver or switch port by `nccl-gdr doctor "
      "--check error-counters` on both hosts, and on RoCE for a switch that drops packets (PFC, "
      "ECN)",
      port_name.c_str(), peer.c_str(), static_cast<long long>(lateness.count()),
      left_out_text(*left_out).c_str());
}

void RailLog::stays_lost(const std::string& port, const std::string& peer, const Error& reason) {
  // The text of a call that fails names a port.
  const int err = reason.sys_errno;
  warn_of("stays lost: " + (err == 0 ? reason.text : std::to_string(err)), port,
          port + " <-> " + peer,
          " is still lost, although the port is active; it is tried again from time to time: " +
              reason.text);
}

void RailLog::warn_of(const std::string& cause, const std::string& port, const std::string& rail,
                      const std::string& text) {
  std::lock_guard lock(mutex_);
  add(cause, port, rail, text);
  update_deadline();
}

void RailLog::add(const std::string& name, const std::string& port, const std::string& rail,
                  const std::string& text) {
  Cause& cause = causes_[name];
  if (!cause.ports.insert(port).second) return write_rail_line(false, rail + text);
  if (cause.due.empty()) {
    cause.since = now_();
    cause.text = text;
  }
  cause.due.emplace(port, rail);
}

bool RailLog::asks_for_address(const std::string& port, const std::string& address) {
  std::lock_guard lock(mutex_);
  return ports_[port].addresses.insert(address).second;
}

void RailLog::address_is_former(const std::string& name, const std::string& address) {
  std::lock_guard lock(mutex_);
  Port& port = ports_[name];
  for (auto& [effect, loss] : port.losses) loss.all.set_former_address(address);
  if (!port.losses.empty()) return;
  write_line(episodes_.warn("former address", now_()).has_value(), address + former_address_text());
}

void RailLog::write(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  for (auto& [name, port] : ports_) {
    const bool due = std::ranges::any_of(
        port.losses, [&](const auto& loss) { return now - kCollected >= loss.second.since; });
    const bool back = port.back && now - kCollected >= port.back->since;
    if (due || back) write_losses(name, port);
    if (back) write_return(name, port);
  }
  for (auto& [name, cause] : causes_) {
    if (!cause.due.empty() && now >= deadline_of(cause)) write_cause(cause);
  }
  update_deadline();
}

void RailLog::update_deadline() {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [name, port] : ports_) {
    for (const auto& [effect, loss] : port.losses) next = std::min(next, loss.since + kCollected);
    if (port.back) next = std::min(next, port.back->since + kCollected);
  }
  for (const auto& [name, cause] : causes_) next = std::min(next, deadline_of(cause));
  deadline_.store(next.time_since_epoch().count(), std::memory_order_relaxed);
}

Clock::time_point RailLog::deadline_of(const Cause& cause) {
  if (cause.due.empty()) return Clock::time_point::max();
  return std::max(cause.since + kCollected, cause.not_before);
}

// What is written earlier than it is due, as the process may end, is a warning only if that may be.
void RailLog::write_cause(Cause& cause) {
  std::string first, others;
  for (const auto& [port, rail] : std::exchange(cause.due, {})) {
    if (first.empty()) {
      first = rail;
    } else {
      others += (others.empty() ? " (likewise " : ", ") + rail;
    }
  }
  if (!others.empty()) others += ")";
  const bool warns = now_() >= cause.not_before;
  if (warns) cause.not_before = now_() + Episodes::kMinute;
  write_rail_line(warns, first + others + cause.text);
}

// Other connections may lose a rail later that is lost already.
void RailLog::write_losses(const std::string& name, Port& port) {
  for (const auto& [effect, loss] : std::exchange(port.losses, {})) {
    const bool again = !std::exchange(port.is_lost, true);
    std::optional<int> left_out;
    if (effect != LossEffect::kExplained) {
      left_out = episodes_.warn(name, loss.since, static_cast<int>(effect), again);
    } else if (!again) {
      continue;
    }
    const std::string rails = loss.all.rails_text(), text = loss.all.text(left_out.value_or(0));
    if (left_out && loss.all.stood_by()) {
      add("lost: " + loss.all.common_text(), name, rails, text.substr(rails.size()));
    } else {
      write_rail_line(left_out.has_value(), text);
    }
  }
  port.addresses.clear();
}

void RailLog::write_return(const std::string& name, Port& port) {
  const Return back = *std::exchange(port.back, std::nullopt);
  port.is_lost = false;
  for (auto& [text, cause] : causes_) {
    cause.ports.erase(name);
    const auto due = cause.due.find(name);
    if (due == cause.due.end()) continue;
    if (now_() >= cause.not_before) {
      write_cause(cause);
    } else {
      write_rail_line(false, due->second + cause.text);
      cause.due.erase(due);
    }
  }
  const auto away = std::chrono::duration_cast<std::chrono::milliseconds>(back.away);
  GDR_INFO(log::kInit | log::kNet, "%s <-> %s: the rail is used again after %s", name.c_str(),
           ports_text(back.peers).c_str(), seconds_text(away).c_str());
}

}  // namespace gdr::transport
