#include "transport/recovery/rail_log.h"

#include <optional>

#include "base/log.h"
#include "transport/link/failure_log.h"

namespace gdr::transport {
namespace {

static_assert(static_cast<int>(LossEffect::kWaits) == kWorstOfAPort);

// NCCL_DEBUG=INFO alone shows the first line of a loss.
void write_rail_line(bool warns, const std::string& text) {
  if (warns) {
    GDR_WARN("%s", text.c_str());
  } else {
    GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
  }
}

}  // namespace

// Other connections lose the same rail, which is worth a line only where they lose more by it.
void RailLog::lost(const RailLoss& loss) {
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  std::map<std::string, Lost>& peers = ports_[loss.port].lost;
  const bool counts = peers.empty();
  const auto [found, is_new] = peers.try_emplace(loss.peer, Lost{now, now, loss});
  Lost& known = found->second;
  const bool is_less = loss.effect <= known.loss.effect && loss.may_return >= known.loss.may_return;
  if (!is_new && is_less && now - known.logged_at < Episodes::kMinute) return;
  known = {known.since, now, loss};
  std::optional<int> left_out;
  if (loss.effect != LossEffect::kExplained) {
    left_out = episodes_.warn(loss.port, now, static_cast<int>(loss.effect), counts);
  }
  const bool warns = left_out && (loss.effect != LossEffect::kStoodBy ||
                                  episodes_.warn("standby rails: " + cause_text(loss), now));
  write_rail_line(warns, lost_rail_text(loss, left_out.value_or(0)));
}

// The first connection that uses it again counts.
void RailLog::returned(const std::string& port_name, const std::string& peer) {
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  Port& port = ports_[port_name];
  const auto lost = port.lost.extract(peer);
  if (lost.empty()) return;
  port.causes.clear();
  const auto away = std::chrono::round<std::chrono::seconds>(now - lost.mapped().since).count();
  write_rail_line(false, port_name + " <-> " + peer + ": the rail is used again after " +
                             std::to_string(away) + " s");
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
  warn_of("stays lost: " + port, port, port + " <-> " + peer,
          " is still lost, although the port is active; it is tried again from time to time: " +
              reason.text);
}

void RailLog::warn_of(const std::string& cause, const std::string& port, const std::string& rail,
                      const std::string& text) {
  std::lock_guard lock(mutex_);
  std::set<std::string>& known = ports_[port].causes;
  const bool warns = !known.contains(cause) && episodes_.warn(cause, now_());
  if (warns) known.insert(cause);
  write_rail_line(warns, rail + text);
}

}  // namespace gdr::transport
