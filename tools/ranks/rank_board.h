// What a rank shows to the process that watches it, in memory that both share: it can be read
// after the rank was killed or while it hangs inside a plugin's call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::tools {

struct RankBoard {
  static constexpr size_t kStateBytes = 256;
  static constexpr size_t kReportBytes = 4096;

  std::atomic<uint64_t> heartbeat;   // changes whenever the rank makes progress
  std::atomic<int64_t> reported_at;  // nanoseconds of the system-wide steady clock; 0: not yet
  char state[kStateBytes];           // what the rank is doing; a clause without a full stop
  char report[kReportBytes];         // why it ended, when not well

  void set_state(std::string_view text);
  // The first report stays: later ones are consequences.
  void set_report(std::string_view text);
  void beat() { heartbeat.fetch_add(1, std::memory_order_relaxed); }
};

struct UnmapBoards {
  size_t bytes = 0;
  void operator()(RankBoard* boards) const;
};
using RankBoards = std::unique_ptr<RankBoard[], UnmapBoards>;

// Zeroed boards that forked processes share with this one.
Result<RankBoards> make_rank_boards(int count);

}  // namespace gdr::tools
