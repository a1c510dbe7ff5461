// Which warnings are written of what happens again and again.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"

namespace gdr::transport {

// One warning a minute for each cause, whatever it says, and one more where things get worse. Those
// between are left out (INFO lines) and counted. Thread-safe.
class Episodes {
 public:
  static constexpr std::chrono::minutes kMinute{1};
  static constexpr Clock::duration kForGood = Clock::duration::max();

  // A warning of that cause is due. Nothing: it is left out. Else how many were since the last one.
  // severity: a greater one than that of the last warning is not left out. counts: it is not only
  // another effect of what has been counted already.
  std::optional<int> warn(const std::string& cause, Clock::time_point now, int severity = 0,
                          bool counts = true, Clock::duration pause = kMinute);

 private:
  struct Episode {
    Clock::time_point warned_at;
    int severity;
    Clock::duration pause;
    int left_out = 0;
  };

  std::mutex mutex_;
  std::map<std::string, Episode> episodes_;  // by cause; guarded by mutex_
};

// The severity of a port that takes the last rail of a connection: LossEffect::kWaits.
inline constexpr int kWorstOfAPort = 3;

// A warning, or an INFO line where that is left out, with the place of the caller.
void write_line(bool warning, const std::string& text, const char* file = __builtin_FILE(),
                int line = __builtin_LINE());

// "; it happened 5 more times since the last warning"; "" for 0.
std::string left_out_text(int left_out);

}  // namespace gdr::transport
