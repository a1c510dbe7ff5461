// What the handshakes of a process have in common: the clock, the log of those that stall, and the
// end of those that NCCL abandons.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace gdr::transport {

// The fix where a peer may not be reached, for error and log texts.
inline constexpr char kAllowTcp[] =
    "allow TCP between the nodes on all ports above 1023, or choose the interface with "
    "NCCL_SOCKET_IFNAME, alike on all nodes";

class Handshake;

// All handshakes of a Transport. Thread-safe.
class HandshakeRegistry {
 public:
  // watchdog: a handshake that makes no progress for so long is logged; 0 turns that off.
  HandshakeRegistry(Now now, std::chrono::seconds watchdog)
      : now_(std::move(now)), watchdog_(watchdog) {}

  Clock::time_point now() const { return now_(); }

  // Frees what those handshakes hold that NCCL has not called for minutes. When NCCL aborts, it
  // neither calls connect() again nor closes a listener that it still accepts on
  // (src/transport/net.cc, recvProxyFree).
  void expire_abandoned();

  // Peers that are pending at all listeners. Each holds a descriptor of the process.
  std::atomic<int> pending_peers{0};
  // Whether a peer of another wire version has been logged.
  std::atomic<bool> logged_other_version{false};

 private:
  friend class Handshake;
  struct Stall {
    Clock::time_point since;
    std::string text;
  };

  void add(Handshake* handshake);
  void remove(Handshake* handshake);
  void add_stall(const Handshake* handshake, Stall stall);
  void end_stall(const Handshake* handshake);
  // Logs the episode, once.
  void log_stalls();

  const Now now_;
  const std::chrono::seconds watchdog_;
  std::mutex mutex_;  // guards all that follows
  std::set<Handshake*> all_;
  Clock::time_point last_expiry_{};
  // An episode begins with the first stalled handshake and ends when none is left.
  std::map<const Handshake*, Stall> stalls_;
  Clock::time_point episode_began_{};
  bool episode_logged_ = false;
};

// What one connector or listener shares with the others. Its owner declares it as its last member,
// so that it is destroyed first: `release` must not run on an owner that is half destroyed.
class Handshake {
 public:
  // release frees what the owner holds. It runs in another thread, but never during a call of
  // NCCL's (begin_call()).
  Handshake(HandshakeRegistry& all, std::function<void()> release);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  Clock::time_point now() const { return all_.now(); }
  HandshakeRegistry& all() { return all_; }

  // Every call of NCCL's begins with it and holds the lock until it returns. An error where the
  // handshake had been abandoned: its resources are gone. call: "connect", for the text.
  Result<std::unique_lock<std::mutex>> begin_call(const char* call);
  // The handshake has come further; a stall ends.
  void on_progress();
  // It is complete. A listener may be called again much later, for another sender.
  void on_complete();
  // The handshake has to wait. Where it has done so for the watchdog's time, that is logged with
  // the owner's text(seconds), which says what it waits for, the likely cause and the fix.
  template <class Text>
  void on_waiting(const Text& text) {
    if (is_stall_due()) log_stall(text(seconds_without_progress()));
    if (stalled_) all_.log_stalls();
  }

 private:
  friend class HandshakeRegistry;
  bool is_stall_due() const;
  long long seconds_without_progress() const;
  void log_stall(std::string text);
  // Returns whether NCCL seems to have abandoned it.
  bool expire_if_abandoned(Clock::time_point now);

  HandshakeRegistry& all_;
  const std::function<void()> release_;
  std::mutex mutex_;                            // guards all that follows, and what the owner holds
  std::optional<Clock::time_point> last_call_;  // none: no call is expected
  std::optional<Clock::time_point> suspected_;  // that NCCL has abandoned it, since then
  bool expired_ = false;
  Clock::time_point progress_at_{};
  bool stalled_ = false;
};

}  // namespace gdr::transport
