// One process of a run: its number, its board, and communication with the other ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/ranks/rank_board.h"
#include "tools/ranks/socket_io.h"

namespace gdr::tools {

struct RankSpec {
  int rank = 0;
  int nranks = 1;
  HostPort root;
  double patience_seconds = 120;  // limit of a wait without progress
};

// This process in a run. The processes of a run meet in barriers and exchange texts.
class Rank {
 public:
  // Connects to the root. The board must outlive the Rank.
  static Result<Rank> join(const RankSpec& spec, RankBoard* board);

  int rank() const { return spec_.rank; }
  int nranks() const { return spec_.nranks; }
  double patience_seconds() const { return spec_.patience_seconds; }
  const HostPort& root() const { return spec_.root; }
  RankBoard& board() const { return *board_; }

  // Sends this rank's bytes and returns those of all ranks in rank order. `what` names the step in
  // the report of a run that hangs.
  Result<std::vector<std::string>> allgather(std::string_view what, std::string_view mine);
  Status barrier(std::string_view what);

  // Returns true when the root has closed the connection, so that the run is over. This is a system
  // call: not for a hot path.
  bool abandoned() const;

 private:
  Rank() = default;
  RankSpec spec_;
  RankBoard* board_ = nullptr;
  UniqueFd fd_;
};

}  // namespace gdr::tools
