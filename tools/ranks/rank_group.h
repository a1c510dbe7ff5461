// Forks the ranks of a run, serves their control plane, and watches them to their end.
//
// Fork comes before any plugin, CUDA or thread is in the process, as neither survives it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct GroupSpec {
  int nranks = 1;
  std::vector<int> local;         // the ranks that this process forks
  HostPort root{"127.0.0.1", 0};  // served here if rank 0 is local; port 0: a free one
  double patience_seconds = 120;  // no sign of progress for this long is a hang
  double total_seconds = 0;       // the most the whole run may take; 0: no bound
  // A rank's death ends the others, after a moment for their own last words; unless this is set.
  bool outlive_deaths = false;
};

// The ranks of a run: all of them here, or, where root ("ADDR:PORT") is not empty, this rank alone.
Result<GroupSpec> group_of(int nranks, const std::string& root, int rank);

struct RankOutcome {
  enum class End { kExited, kKilled, kHung, kEnded };  // kEnded: by us, as another rank failed

  int rank = 0;
  End end = End::kExited;
  int exit_code = 0;  // of kExited
  int signal = 0;     // of kKilled
  std::string report;
  int64_t reported_at = 0;  // as in RankBoard
  std::string state;

  bool well() const { return end == End::kExited && exit_code == 0; }
};

// main's value is the rank's exit code; what it puts into board.report says why.
using RankMain = std::function<int(Rank&)>;

// Fails only when nothing could be started.
Result<std::vector<RankOutcome>> run_group(const GroupSpec& spec, const RankMain& main);

// The outcomes that are not well, the most telling first: a crash explains the other ranks'
// complaints, and so does the earliest complaint the later ones.
std::vector<RankOutcome> causes(const std::vector<RankOutcome>& outcomes);

// "rank 1 was killed by signal 9 (Killed) while ...", for people.
std::string describe(const RankOutcome& outcome);

}  // namespace gdr::tools
