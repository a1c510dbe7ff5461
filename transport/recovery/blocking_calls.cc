#include "transport/recovery/blocking_calls.h"

#include <pthread.h>

#include <exception>
#include <system_error>
#include <utility>

#include "base/blocked_signals.h"
#include "base/log.h"

namespace gdr::transport {

void BlockingCalls::add(std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (start()) {
      waiting_.push_back(std::move(call));
      changed_.notify_all();
      return;
    }
  }
  call();
}

bool BlockingCalls::start() {
  if (thread_.joinable()) return true;
  const BlockedSignals blocked;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    pthread_setname_np(thread_.native_handle(), thread_name_);
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

// An exception would end the process. The watcher asks again for what was not done, about once a
// second.
void BlockingCalls::run(const std::stop_token& stop) {
  bool logged = false;
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
    if (stop.stop_requested()) return;
    std::function<void()> call = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      call();
      logged = false;
    } catch (const std::exception& error) {
      if (!std::exchange(logged, true)) {
        GDR_WARN(
            "%s: a call failed, and is tried again: %s. Fix: raise the memory limit of the process "
            "or its container",
            thread_name_, error.what());
      }
    }
    call = nullptr;
    lock.lock();
  }
}

}  // namespace gdr::transport
