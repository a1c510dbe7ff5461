// A conformance case's access to the plugin. A case runs in processes of its own, so a failed
// requirement simply ends the process, after it has written its text to the rank's board.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/pattern.h"
#include "tools/net/plugin_loader.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

inline constexpr int kExitSkipped = 77;

struct ConformanceOptions {
  std::string plugin = "gdr";
  std::optional<int> table;   // the version of the table; empty: the newest
  MergedDevices dev{1, {0}};  // all cases use it; several parts: the plugin merges them
  uint64_t seed = 1;
  double timeout_seconds = 20;     // for every wait for the plugin
  double call_limit_seconds = 1;   // a longer call of listen, connect or accept counts as blocking
  double peer_death_seconds = 90;  // until a killed peer must be reported as an error
};

// One rank's access to the plugin while a case runs. Every call names the plugin's entry on the
// rank's board, so that the runner can report an entry that hangs or crashes.
class Session {
 public:
  Session(Rank& rank, const ConformanceOptions& options)
      : rank_(rank), options_(options), random_(options.seed), dev_(options.dev.devices[0]) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  int rank() const { return rank_.rank(); }
  const ConformanceOptions& options() const { return options_; }
  Net& net() const { return plugin_->net(); }
  Contract contract() const { return net().contract(); }
  void* context() const { return context_; }  // of open()
  int dev() const { return dev_; }            // of several parts: once open() has merged them
  // Gives the same sequence on every rank, if all ranks draw the same numbers.
  Random& random() { return random_; }
  Rank& control() { return rank_; }

  void load();  // loads the plugin without calling any entry
  // Loads the plugin unless that is done, initialises it, and requires a device. The context that
  // this makes ends with the Session, after the case's comms.
  void open() { open(settings()); }
  void open(const InitArguments& settings);
  // What a communicator of this case passes to init, the same on all ranks.
  InitArguments settings() const;
  // Makes and ends the context of a further communicator; both must succeed.
  void* init(const InitArguments& settings);
  void finalize(void* context);
  int devices() { return devices(net()); }
  int devices(Net& net);
  NetProperties properties(int dev);
  // The requests that a comm of this device must have room for: each receive has up to maxRecvs
  // sends (NCCL's plugins/net/README.md, "Communication").
  int most_receives() const { return contract().max_requests; }
  int most_sends();

  // Both end the process; the text becomes the result of the case.
  [[noreturn]] void fail(std::string_view text);
  [[noreturn]] void skip(std::string_view text);

  // Skips the case where the version of the table does not have what the case checks.
  void need(bool has, std::string_view what) {
    if (!has) skip(fmt::format("version {} has no {}", contract().version, what));
  }

  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) fail(fmt::format(format, std::forward<Args>(args)...));
  }

  // Calls the plugin. The name on the rank's board identifies the entry if the call hangs or
  // crashes; call_seconds() has its duration.
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

  // Like call(), and requires success.
  template <class Entry>
  void must(const char* name, Entry&& entry) {
    abi::ncclResult_t result = call(name, std::forward<Entry>(entry));
    require(result == abi::ncclSuccess, "{} returned {}", name, describe(result));
  }

  // Barrier and allgather over all ranks; they fail the case if another rank has ended.
  void meet(std::string_view what);
  std::vector<std::string> allgather(std::string_view what, std::string_view mine);

 private:
  void note_call(const char* name);
  void note_return(const char* name);

  Rank& rank_;
  ConformanceOptions options_;
  Random random_;
  std::optional<Plugin> plugin_;
  void* context_ = nullptr;
  int dev_;
  bool initialized_ = false;  // by open()
  double call_seconds_ = 0;
  int max_recvs_ = 0;  // 0: not asked yet
};

// The time limit of a polling loop, which calls wait() after each round without progress.
class Deadline {
 public:
  Deadline(Session& session, double seconds)
      : session_(session),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  // Yields the CPU; returns false once the time is up.
  bool wait();

 private:
  Session& session_;
  Clock::time_point end_;
  unsigned rounds_ = 0;
};

}  // namespace gdr::tools
