// One process of a run, as its own code sees it.
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
  double patience_seconds = 120;  // how long a wait without progress may last
};

class Rank {
 public:
  // Connects to the root. board outlives the Rank.
  static Result<Rank> join(const RankSpec& place, RankBoard* board);

  int rank() const { return place_.rank; }
  int nranks() const { return place_.nranks; }
  double patience_seconds() const { return place_.patience_seconds; }
  const HostPort& root() const { return place_.root; }
  RankBoard& board() const { return *board_; }

  // Every rank gives its bytes and gets all ranks' in rank order. what names the meeting for the
  // one who must find out why a run hangs.
  Result<std::vector<std::string>> allgather(std::string_view what, std::string_view mine);
  Status barrier(std::string_view what);

  // The root has gone, so the run is over. Cheap enough for a slow path, not for a hot one.
  bool abandoned() const;

 private:
  Rank() = default;
  RankSpec place_;
  RankBoard* board_ = nullptr;
  UniqueFd fd_;
};

}  // namespace gdr::tools
