// A conformance case's view of the plugin. A case runs in processes of its own, so a failed
// requirement simply ends the process, after leaving its text on the rank's board.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/pattern.h"
#include "tools/common/plugin_loader.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

inline constexpr int kExitSkipped = 77;

struct CheckOptions {
  std::string plugin = "gdr";
  int dev = 0;
  uint64_t seed = 1;
  double timeout_seconds = 20;     // for anything that waits for the plugin
  double call_limit_seconds = 1;   // for a single call: longer means that it blocks
  double peer_death_seconds = 60;  // until a dead peer must have become an error
  // Where rank 0 serves a run of two machines, this one being `rank`; empty: all ranks are here.
  std::string root;
  int rank = -1;
};

class Session {
 public:
  Session(Rank& rank, const CheckOptions& options)
      : rank_(rank), options_(options), random_(options.seed) {}

  int rank() const { return rank_.rank(); }
  int nranks() const { return rank_.nranks(); }
  const CheckOptions& options() const { return options_; }
  const abi::ncclNet_v8_t& net() const { return plugin_->net(); }
  int dev() const { return options_.dev; }
  // The same sequence on every rank that asks for the same things.
  Random& random() { return random_; }
  Rank& control() { return rank_; }

  void load();  // only dlopen
  void open();  // load, init, and at least one device
  abi::ncclNetProperties_v8_t properties(int dev);

  [[noreturn]] void fail(std::string_view text);
  [[noreturn]] void skip(std::string_view text);

  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) fail(fmt::format(format, std::forward<Args>(args)...));
  }

  // Makes a call into the plugin under a name, so that a hang or a crash inside shows as such, and
  // notes how long it took.
  template <class Entry>
  abi::ncclResult_t call(const char* name, Entry&& entry) {
    note_call(name);
    Clock::time_point start = Clock::now();
    abi::ncclResult_t result = entry();
    call_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    note_return(name);
    return result;
  }
  double call_seconds() const { return call_seconds_; }

  // The call must succeed.
  template <class Entry>
  void must(const char* name, Entry&& entry) {
    abi::ncclResult_t result = call(name, std::forward<Entry>(entry));
    require(result == abi::ncclSuccess, "{} returned {}", name, describe(result));
  }

  // All ranks; fails the case when another has ended.
  void meet(std::string_view what);
  std::vector<std::string> allgather(std::string_view what, std::string_view mine);

 private:
  void note_call(const char* name);
  void note_return(const char* name);

  Rank& rank_;
  CheckOptions options_;
  Random random_;
  std::optional<Plugin> plugin_;
  double call_seconds_ = 0;
};

// A deadline for a wait; polling loops ask it after each fruitless round.
class Deadline {
 public:
  Deadline(Session& session, double seconds)
      : session_(session),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  // Yields the core; false when time is up.
  bool wait();

 private:
  Session& session_;
  Clock::time_point end_;
  unsigned rounds_ = 0;
};

}  // namespace gdr::tools
