// The thread that revives pairs for all connections.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "transport/data/recovery.h"
#include "transport/data/slow_paths.h"

namespace gdr::transport {

// ibv_modify_qp may block for a second or more, and ibv_query_port where firmware does not answer,
// and several pairs of many connections may be due at once. The watcher, which finds failures and
// carries recoveries on, must not wait for that.
class Reviver {
 public:
  explicit Reviver(Now now = Clock::now) : now_(std::move(now)) {}
  // Waits for the call of ibv_modify_qp that is under way.
  ~Reviver();
  Reviver(const Reviver&) = delete;
  Reviver& operator=(const Reviver&) = delete;

  // Has Recovery::revive_pairs called. The first call starts the thread, which inherits the
  // caller's signal mask. Where no thread can be started, nothing is done.
  void add(std::shared_ptr<Recovery> recovery);

 private:
  void run();

  const Now now_;
  std::mutex mutex_;  // guards waiting_ and stopping_
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Recovery>> waiting_;
  bool stopping_ = false;
  bool logged_ = false;  // that there is no thread
  SlowPaths slow_;       // the thread's
  std::thread thread_;
};

}  // namespace gdr::transport
