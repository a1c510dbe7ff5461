// The state of a rank for the process that supervises it, in shared memory: it can be read after
// the rank was killed, or while it hangs inside a plugin's call.
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
  std::atomic<int64_t> reported_at;  // time of the report in ns of CLOCK_MONOTONIC; 0: none
  char state[kStateBytes];           // present activity, for "... while STATE"; "inside test()"
  char report[kReportBytes];         // reason of a failure

  void set_state(std::string_view text);
  // Sets the report unless there is one: later failures are consequences of the first.
  void set_report(std::string_view text);
  void beat() { heartbeat.fetch_add(1, std::memory_order_relaxed); }
};

struct UnmapBoards {
  size_t bytes = 0;
  void operator()(RankBoard* boards) const;
};
using RankBoards = std::unique_ptr<RankBoard[], UnmapBoards>;

// Returns zeroed boards in memory that forked processes share with this one.
Result<RankBoards> make_rank_boards(int count);

}  // namespace gdr::tools
