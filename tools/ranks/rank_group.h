// Forks the ranks of a run, serves their control connections, and supervises them until they end.
//
// The fork takes place before the process has loaded a plugin, initialised CUDA or started a
// thread, because none of these survives it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct GroupSpec {
  int nranks = 1;
  std::vector<int> local;         // ranks that this process forks
  HostPort root{"127.0.0.1", 0};  // served by this process if rank 0 is local; port 0: any free one
  double patience_seconds = 120;  // a longer time without progress is a hang
  double total_seconds = 0;       // limit of the whole run; 0: none
  // False: when a rank fails, the others are killed after a grace period for their own reports.
  bool outlive_deaths = false;
  bool shows_progress = false;  // on a terminal: what is done for long between two lines
  // Where rank 0 is local: the socket that listens at `root`, for all runs of copies of this spec.
  // Null: run_group() opens one.
  std::shared_ptr<UniqueFd> listener;
  // The number of the run among those over that socket, alike in all processes, so that a rank that
  // comes too late for its run is not taken for one of the next.
  uint32_t run = 0;
};

// Returns the spec of a run with all ranks in this process.
GroupSpec local_group(int nranks);

// Returns that spec, or, if root ("ADDR:PORT") is not empty, the spec of a run with `rank` alone.
Result<GroupSpec> group_of(int nranks, const std::string& root, int rank);

// Opens the listener if rank 0 is local and none is open. Replaces port 0 of the root, and prints
// the port if other processes have to connect there.
Status listen_at_root(GroupSpec& spec);

struct RankOutcome {
  // The likeliest cause of the others' ends first. kEnded: killed here after another one failed.
  enum class End { kKilled, kHung, kExited, kEnded };

  int rank = 0;
  End end = End::kExited;
  int exit_code = 0;  // of kExited
  int signal = 0;     // of kKilled
  std::string report;
  int64_t reported_at = 0;  // as in RankBoard
  std::string state;

  bool well() const { return end == End::kExited && exit_code == 0; }
};

// One rank's program. Its value is the rank's exit code; it writes the reason of a failure to the
// board's report.
using RankMain = std::function<int(Rank&)>;

// Runs all ranks to their end. Fails only if the ranks could not be started.
Result<std::vector<RankOutcome>> run_group(GroupSpec spec, const RankMain& main);

// Returns the failed outcomes, the most likely cause first: crashes, then hangs, then failures in
// the order of their reports, because the others are usually consequences.
std::vector<RankOutcome> causes(const std::vector<RankOutcome>& outcomes);

// Returns a text for people: "rank 1 was killed by signal 9 (Killed) while ...".
std::string describe(const RankOutcome& outcome);

}  // namespace gdr::tools
