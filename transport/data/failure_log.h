// The log lines about connections that fail, lose their handshake socket or stall: one warning for
// each cause, not one for each of the connections that it concerns.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/result.h"
#include "transport/data/peer_link.h"

namespace gdr::transport {

// "1 connection", "2 connections", "3 peer processes" (plural "es").
std::string counted(size_t count, const std::string& what, const char* plural = "s");

// "0.54 s", "34 s": two digits that count.
std::string seconds_text(std::chrono::milliseconds time);

// Decides what is a warning, and writes the lines. A cause that occurs again within a minute of its
// last occurrence belongs to the same episode, and is logged at INFO. Thread-safe; used only where
// something has failed.
class FailureLog {
 public:
  using Clock = PeerLink::Clock;

  // A call of NCCL's returned the failure of a link. Failures that came from the peer are one
  // episode per peer process, others one per text. connections: with that process, which have
  // failed or are about to.
  void link_failed(const PeerLink& link, size_t connections, Clock::time_point now);
  // The handshake sockets of that many connections with a host ended without their peers' being
  // gone; `link` is the first of them. One episode per host.
  void path_lost(const PeerLink& link, size_t connections, Clock::time_point now);
  // A port of this node went down, such as `mlx5_0:1 reports "..."`, the last usable one of so many
  // connections. They wait: the HCA sends for `retries`, and for `waits` after that a rail may
  // return.
  void last_port_down(const std::string& text, size_t connections,
                      std::chrono::milliseconds retries, std::chrono::milliseconds waits);
  // An HCA reported a fatal event, such as `mlx5_0 reports "..."`, which concerns so many
  // connections. fails: they fail.
  void fatal_event(const std::string& text, const std::string& hint, size_t connections, bool fails,
                   Clock::time_point now);
  // A warning of a connection that others share: once for each cause, for good.
  void warn_once(const std::string& cause, const std::string& text);
  // An INFO line that connections share: once for each cause, for good. NCCL_DEBUG=INFO alone shows
  // it.
  void note_once(const std::string& cause, const std::string& text);

 private:
  bool begins(const std::string& cause, Clock::time_point now);

  std::mutex mutex_;                               // guards all that follows
  std::map<std::string, Clock::time_point> last_;  // by cause
  std::set<std::string> warned_;                   // causes of warn_once
  std::set<std::string> noted_;                    // causes of note_once
};

}  // namespace gdr::transport
