// One process of a run: its number, its board, and communication with the other ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/ranks/socket_io.h"

namespace gdr::tools {

// The state of a rank for the process that supervises it, in shared memory: it can be read after
// the rank was killed, or while it hangs inside a plugin's call.
struct RankBoard {
  static constexpr size_t kStateBytes = 256;
  static constexpr size_t kReportBytes = 4096;

  std::atomic<uint64_t> heartbeat;   // changes whenever the rank makes progress
  std::atomic<int64_t> reported_at;  // time of the report in ns of CLOCK_MONOTONIC; 0: none
  std::atomic<uint32_t> lines;       // that the rank has printed
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

struct RankSpec {
  int rank = 0;
  int nranks = 1;
  uint32_t run = 0;  // of those over one listener of the root
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
  // Does the same with a value of a trivial type, which every rank has.
  template <class T>
  Result<std::vector<T>> allgather_values(std::string_view what, const T& mine);

  // Returns true when the root has closed the connection, so that the run is over. This is a system
  // call: not for a hot path.
  bool abandoned() const;
  // The same, or when a rank has ended: the next allgather then returns that as its error. Not
  // during one.
  bool has_lost_a_rank() const;

 private:
  Rank() = default;
  int peek() const;
  RankSpec spec_;
  RankBoard* board_ = nullptr;
  UniqueFd fd_;
};

template <class T>
Result<std::vector<T>> Rank::allgather_values(std::string_view what, const T& mine) {
  auto all = allgather(what, {reinterpret_cast<const char*>(&mine), sizeof(mine)});
  if (!all) return forward_error(all);
  std::vector<T> values(all->size());
  for (size_t i = 0; i < values.size(); ++i) {
    if ((*all)[i].size() != sizeof(T)) {
      return fail(Code::kInternal, std::string("the ranks are at other steps than ").append(what));
    }
    std::memcpy(&values[i], (*all)[i].data(), sizeof(T));
  }
  return values;
}

}  // namespace gdr::tools
