// The paths on which reviving a pair took long and failed: the reviver leaves them alone for a
// while. (A pair, a path, to revive: docs/glossary.md.)
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace gdr::transport {

// On RoCE the kernel gives an address that nobody answers for up after a second or so, and
// ibv_modify_qp blocks until then. Where a path is dead, each connection over it has a pair to
// revive, and one thread does so for all: a path is left alone after each failure for ten times as
// long as that took, so that pairs of other paths do not wait for it. For a connection that has no
// other pair left, it is left alone for as long as that took. Not thread-safe.
class SlowPaths {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  // path: both ports, as PairIo::path_text() names them. now: when it failed. took: until then.
  void on_failure(const std::string& path, Time now, Duration took) {
    std::erase_if(failures_, [now](const auto& entry) { return !entry.second.pauses(now, false); });
    failures_[path] = {now, took};
  }
  void on_success(const std::string& path) { failures_.erase(path); }
  // urgent: no pair of the connection is usable.
  bool is_paused(const std::string& path, Time now, bool urgent) const {
    const auto found = failures_.find(path);
    return found != failures_.end() && found->second.pauses(now, urgent);
  }

 private:
  static constexpr int kPauses = 10;

  struct Failure {
    Time at;
    Duration took;

    bool pauses(Time now, bool urgent) const { return now < at + (urgent ? 1 : kPauses) * took; }
  };

  std::map<std::string, Failure> failures_;
};

}  // namespace gdr::transport
