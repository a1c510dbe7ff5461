#include "transport/link/failure_log.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

// For how long the last warning of a cause counts.
constexpr std::chrono::hours kForgotten{1};

// What follows "description: ", which differs between links.
std::string reason_of(const PeerLink& link, const std::string& text) {
  const std::string prefix = link.description() + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

}  // namespace

std::optional<int> Episodes::warn(const std::string& cause, Clock::time_point now, int severity,
                                  bool counts, Clock::duration pause) {
  std::lock_guard lock(mutex_);
  std::erase_if(episodes_, [now](const auto& one) {
    return now - one.second.warned_at >= std::max<Clock::duration>(one.second.pause, kForgotten);
  });
  const auto [found, is_new] = episodes_.try_emplace(cause, Episode{now, severity, pause});
  Episode& episode = found->second;
  if (is_new) return 0;
  if (now - episode.warned_at < pause && severity <= episode.severity) {
    if (counts) ++episode.left_out;
    return {};
  }
  episode.warned_at = now;
  episode.severity = severity;
  return std::exchange(episode.left_out, 0);
}

void write_line(bool warning, const std::string& text, const char* file, int line) {
  const auto level = warning ? log::Level::kWarn : log::Level::kInfo;
  log::write(level, warning ? ~0ul : log::kNet, file, line, "%s", text.c_str());
}

std::string left_out_text(int left_out) {
  if (left_out == 0) return "";
  return "; it happened " + std::to_string(left_out) + " more time" + (left_out == 1 ? "" : "s") +
         " since the last warning";
}

std::string counted(size_t count, const std::string& what, const char* plural) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : plural);
}

void FailureLog::link_failed(const PeerLink& link, Clock::time_point now) {
  const Error error = link.failure();
  if (error.code != Code::kRemote) {
    const bool warns = episodes_.warn(reason_of(link, error.text), now).has_value();
    return write_line(warns, error.text);
  }
  const std::string process = to_string(link.peer());
  const bool first = episodes_.warn(process, now).has_value();
  std::string text = error.text;
  if (first && text.starts_with(link.description())) {
    text.insert(link.description().size(), " (" + process + ")");
  }
  write_line(first, text);
}

void FailureLog::path_lost(const PeerLink& link, Clock::time_point now) {
  const bool warns = episodes_.warn("path to " + link.peer().host, now).has_value();
  std::string text = link.description() + ": the handshake socket is lost: " + link.end_text();
  if (warns) {
    text += ". The job goes on: its connections with " + link.peer().host +
            " need only RDMA. Until the socket can be opened again, a process there that dies is "
            "noticed by RDMA alone, later and without its reason. Fix: restore the network of "
            "NCCL_SOCKET_IFNAME, on all ports above 1023";
  }
  write_line(warns, text);
}

void FailureLog::warn_once(const std::string& cause, const std::string& text) {
  write_line(episodes_.warn(cause, Clock::now(), 0, true, Episodes::kForGood).has_value(), text);
}

void FailureLog::warn(const std::string& cause, const std::string& what, const std::string& effect,
                      Clock::time_point now, int severity) {
  const auto left_out = episodes_.warn(cause, now, severity);
  write_line(left_out.has_value(), what + left_out_text(left_out.value_or(0)) + effect);
}

bool Watchdog::episode_lasts(Clock::time_point now) const {
  if (logged_at_ && now - *logged_at_ < limit_) return true;
  const std::shared_ptr<PeerLink> link = logged_.lock();
  return link != nullptr && link->stalled_since() == logged_stall_;
}

bool Watchdog::check(const std::vector<std::shared_ptr<PeerLink>>& links, Clock::time_point now) {
  if (limit_.count() == 0) return false;
  // Links that wait for the same rank stall at about the same time, not at the same.
  const std::chrono::milliseconds counts_from = std::chrono::milliseconds(limit_) / 2;
  std::shared_ptr<PeerLink> oldest;
  size_t stalled = 0;
  std::set<PeerProcess> peers;
  for (const std::shared_ptr<PeerLink>& link : links) {
    const std::optional<Clock::time_point> since = link->stalled_since();
    if (!since || now - *since < counts_from) continue;
    ++stalled;
    peers.insert(link->peer());
    if (oldest == nullptr || *since < *oldest->stalled_since()) oldest = link;
  }
  if (oldest == nullptr || now - *oldest->stalled_since() < limit_ || episode_lasts(now)) {
    return false;
  }
  logged_ = oldest;
  logged_stall_ = oldest->stalled_since();
  logged_at_ = now;
  std::string others;
  if (stalled > 1) {
    others = "; so do " + counted(stalled - 1, "other connection") + ", with " +
             counted(peers.size(), "peer process", "es") + " in all";
  }
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - *logged_stall_);
  GDR_WARN(
      "watchdog: %s: no progress for %lld s with %s; %s%s. The peer's state follows, unless that "
      "process is stopped, its host hangs, or the handshake's network is interrupted. Fix then: "
      "look at its state (ps, dmesg) on that host",
      oldest->description().c_str(), static_cast<long long>(waited.count()),
      to_string(oldest->peer()).c_str(), oldest->state_text().c_str(), others.c_str());
  oldest->query_peer();
  return true;
}

}  // namespace gdr::transport
