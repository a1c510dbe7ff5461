// A thread for calls that may block.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace gdr::transport {

// ibv_modify_qp and ibv_destroy_qp wait for firmware, which may not answer, and the change to RTR
// may take a second or more. The watcher, which finds failures and carries recoveries on, must not
// wait for that. Thread-safe.
class BlockingCalls {
 public:
  // Its end waits for the call that is under way, and drops those that wait.
  explicit BlockingCalls(const char* thread_name) : thread_name_(thread_name) {}

  // Has a call made, after those that were added before. The first one starts the thread,
  // which takes no signals. Where no thread can be started, makes the call itself.
  // Throws what that throws, or std::bad_alloc, with which the call is not made.
  void add(std::function<void()> call);

 private:
  bool start();  // with mutex_
  void run(const std::stop_token& stop);

  const char* const thread_name_;
  std::mutex mutex_;  // guards waiting_
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  std::jthread thread_;  // which ends before all that it uses
};

}  // namespace gdr::transport
