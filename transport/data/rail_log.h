// The log lines about rails that are lost and return: one warning when a port of this node loses
// its rails, whatever the number of connections and peers that it concerns, and one INFO line when
// they are used again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transport/data/episodes.h"
#include "transport/data/recovery_text.h"

namespace gdr::transport {

// Collects what connections report for a second, and writes a line for each port and each kind of
// event. A port has at most one warning a minute, which then says how often its rails were lost
// since the last, and one more when connections are left that have no usable rail; other losses are
// INFO lines. Thread-safe; used only where something has failed.
class RailLog {
 public:
  explicit RailLog(Episodes& episodes, Now now = Clock::now)
      : episodes_(episodes), now_(std::move(now)) {}
  ~RailLog() { flush(); }
  RailLog(const RailLog&) = delete;
  RailLog& operator=(const RailLog&) = delete;

  // A connection lost a rail.
  void lost(const RailLoss& loss);
  // A connection uses a rail again; see RailLoss for the names of its ports.
  void returned(const std::string& port, const std::string& peer);
  // A connection avoids a rail that is in use, as its chunks were late again and again, at last by
  // so much. Warned of at once, and for each port every kLateEpisode at most.
  void late(const std::string& port, const std::string& peer, std::chrono::milliseconds lateness);
  static constexpr std::chrono::minutes kLateEpisode{10};
  // A rail of an active port has not returned for long. Warned of at once, and once until one of
  // the port's rails returns.
  void stays_lost(const std::string& port, const std::string& peer, const std::string& reason);
  // Writes what has been collected for a second. Called at deadline(), or some time later.
  void on_tick() { write(now_()); }
  Clock::time_point deadline() const {
    return Clock::time_point(Clock::duration(deadline_.load(std::memory_order_relaxed)));
  }
  // Writes all that has been collected, for what is logged or ends next.
  void flush() { write(Clock::time_point::max()); }

 private:
  struct Loss {
    Clock::time_point since;  // the first
    RailLosses all;
  };
  struct Return {
    Clock::time_point since;  // the first
    Clock::duration away;     // the longest
    std::vector<std::string> peers;
  };
  // A port of this node.
  struct Port {
    // Not written yet.
    std::map<LossEffect, Loss> losses;
    std::optional<Return> back;
    // Written.
    std::map<std::string, Clock::time_point> lost_peers;  // that are not reached yet, since when
    bool is_lost = false;                                 // no rail of it has returned since
  };

  void write(Clock::time_point now);
  void write_losses(const std::string& name, Port& port);
  void write_return(const std::string& name, Port& port);
  void update_deadline();

  Episodes& episodes_;
  const Now now_;
  std::atomic<Clock::rep> deadline_{Clock::duration::max().count()};
  std::mutex mutex_;                   // guards all that follows
  std::map<std::string, Port> ports_;  // by RailLoss::port
};

}  // namespace gdr::transport
