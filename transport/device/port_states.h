// Whether the ports of an HCA are active, as the last query showed. Each query is a command to the
// firmware, and all connections of a process over a port want to know at the same time when it is
// down: they share what one of them has found out.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

#include "drivers/verbs/verbs_api.h"

namespace gdr::transport {

// Thread-safe.
class PortStates {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // For so long an answer counts, unless an event comes.
  static constexpr std::chrono::milliseconds kFresh{1000};

  // Neither is owned.
  PortStates(const verbs::Api& api, ibv_context* context) : api_(api), context_(context) {}

  // Whether a port is active. A port that cannot be queried is not. Blocks for as long as the
  // firmware does not answer, with no lock held.
  bool is_active(int port, Time now);
  // An event has reported a change: what was found out before counts for nothing. Never blocks.
  void drop() { generation_.fetch_add(1); }

 private:
  struct Answer {
    uint64_t generation;
    Time at;
    bool active;
  };

  const verbs::Api& api_;
  ibv_context* context_;
  std::atomic<uint64_t> generation_{0};  // how often drop() was called
  std::mutex mutex_;
  std::map<int, Answer> answers_;  // by port; guarded by mutex_
};

}  // namespace gdr::transport
