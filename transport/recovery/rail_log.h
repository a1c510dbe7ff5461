// The log lines about rails that are missing, are lost and return: one warning when a port of this
// node loses its rails, whatever the number of connections and peers that it concerns, and one INFO
// line for each peer when rails are used again.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "transport/link/failure_log.h"
#include "transport/recovery/recovery_text.h"

namespace gdr::transport {

// Writes what connections report. A port has at most one warning a minute, which then says how
// often its rails were lost since the last, and further ones only where more is lost: by
// connections that have used the rail, or that have no usable rail left. Of standby rails that one
// cause takes away in a minute, the first alone is warned of. Other losses are INFO lines, one for
// each peer. Thread-safe; used only where something has failed. Virtual for tests.
class RailLog {
 public:
  explicit RailLog(Episodes& episodes, Now now = Clock::now)
      : episodes_(episodes), now_(std::move(now)) {}
  virtual ~RailLog() = default;

  // A connection lost a rail.
  virtual void lost(const RailLoss& loss);
  // A connection uses a rail again; see RailLoss for the names of its ports.
  virtual void returned(const std::string& port, const std::string& peer);
  // A connection avoids a rail that is in use, as its chunks were late again and again, at last by
  // so much. Warned of at once, and for each port every kLateEpisode at most.
  virtual void late(const std::string& port, const std::string& peer,
                    std::chrono::milliseconds lateness);
  static constexpr std::chrono::minutes kLateEpisode{10};
  // A rail of an active port has not returned for long: see warn_of().
  virtual void stays_lost(const std::string& port, const std::string& peer, const Error& reason);
  // What else keeps a rail of a port away: "mlx5_1:1", or "mlx5_1:1 <-> nodeB mlx5_3:1". One
  // warning a minute for each cause; a port is warned of once for a cause until one of its rails
  // returns. Other lines are INFO.
  void warn_of(const std::string& cause, const std::string& port, const std::string& rail,
               const std::string& text);

 private:
  // A rail to a peer that is not reached yet.
  struct Lost {
    Clock::time_point since;
    Clock::time_point logged_at;
    RailLoss loss;  // that was logged then
  };
  // A port of this node.
  struct Port {
    std::map<std::string, Lost> lost;  // by peer
    std::set<std::string> causes;      // that it was warned of
  };

  Episodes& episodes_;
  const Now now_;
  std::mutex mutex_;                   // guards all that follows
  std::map<std::string, Port> ports_;  // by RailLoss::port
};

}  // namespace gdr::transport
