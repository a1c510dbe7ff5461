#include "transport/link/failure_log.h"

#include <algorithm>
#include <cstdio>
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

// Puts a detail behind the first sentence of the reason, before likely causes and fixes.
void add_to_reason(const PeerLink& link, std::string* text, const std::string& detail) {
  const size_t begin = text->size() - reason_of(link, *text).size();
  text->insert(std::min(text->find(". ", begin), text->size()), detail);
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

std::string seconds_text(std::chrono::milliseconds time) {
  const double seconds = static_cast<double>(time.count()) / 1000;
  char text[32];
  std::snprintf(text, sizeof(text), seconds < 10 ? "%.2g s" : "%.0f s", seconds);
  return text;
}

void FailureLog::link_failed(const PeerLink& link, size_t connections, Clock::time_point now) {
  const Error error = link.failure();
  if (error.code != Code::kRemote) {
    const bool warns = episodes_.warn(reason_of(link, error.text), now).has_value();
    return write_line(warns, error.text);
  }
  const std::string process = to_string(link.peer());
  const bool first = episodes_.warn(process, now).has_value();
  std::string text = error.text;
  if (first) {
    add_to_reason(link, &text, "; " + process + " (" + counted(connections, "connection") + ")");
  }
  write_line(first, text);
}

void FailureLog::path_lost(const PeerLink& link, size_t connections, Clock::time_point now) {
  const bool warns = episodes_.warn("path to " + link.peer().host, now).has_value();
  std::string text = link.description() + ": the handshake socket is lost: " + link.end_text();
  if (warns) {
    text += ". The job goes on: its " + counted(connections, "connection") + " with " +
            link.peer().host +
            " need only RDMA. Until the socket can be opened again, a process there that dies is "
            "noticed by RDMA alone, later and without its reason. Fix: restore the network of "
            "NCCL_SOCKET_IFNAME, on all ports above 1023";
  }
  write_line(warns, text);
}

void FailureLog::warn_once(const std::string& cause, const std::string& text) {
  write_line(episodes_.warn(cause, Clock::now(), 0, true, Episodes::kForGood).has_value(), text);
}

void FailureLog::port_down(const PortDown& down, Clock::time_point now) {
  const auto left_out = episodes_.warn(down.port, now, kWorstOfAPort);
  std::string text = down.text + left_out_text(left_out.value_or(0));
  if (down.connections > 0) {
    text += "; transfers of " + counted(down.connections, "connection") +
            " on it are retried by the HCA for NCCL_IB_TIMEOUT and then fail";
  }
  if (down.waiting > 0) {
    text += "; it is the last usable rail of " + counted(down.waiting, "connection") +
            (down.waiting == 1 ? ", which waits" : ", which wait") +
            ": the HCA retries what is sent for " + seconds_text(down.retries) +
            " (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT), for " + seconds_text(down.waits) +
            " after that a connection waits for a rail to return, and then it fails";
  }
  write_line(left_out.has_value(),
             text +
                 ". Likely cause: a cable, a transceiver or a switch port has failed. Fix: look "
                 "at `dmesg` and the switch's log");
}

// One fault raises an event for each of an HCA's QPs and CQs.
void FailureLog::fatal_event(const FatalEvent& event, Clock::time_point now) {
  const auto left_out = episodes_.warn(event.cause, now);
  if (!left_out) return write_line(false, event.text);
  const std::string concerned = counted(event.connections, "connection");
  const std::string effect = event.fails ? concerned + (event.connections == 1 ? " fails" : " fail")
                                         : "NCCL_IB_RETURN_ASYNC_EVENTS=0: " + concerned +
                                               (event.connections == 1 ? " goes on" : " go on");
  write_line(true, event.text + left_out_text(*left_out) + "; " + effect + ". " + event.hint);
}

}  // namespace gdr::transport
