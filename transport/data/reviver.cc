#include "transport/data/reviver.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace gdr::transport {

Reviver::~Reviver() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Reviver::add(std::shared_ptr<Recovery> recovery) {
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
      pthread_setname_np(thread_.native_handle(), "gdr-reviver");
    } catch (const std::system_error& error) {
      if (!std::exchange(logged_, true)) {
        GDR_WARN("no thread can be started to use lost rails again, which is tried again: %s",
                 error.what());
      }
      return;
    }
  }
  if (std::ranges::find(waiting_, recovery) != waiting_.end()) return;
  waiting_.push_back(std::move(recovery));
  changed_.notify_all();
}

// An exception would end the process. The watcher asks again for what was not done.
void Reviver::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    std::shared_ptr<Recovery> recovery = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      recovery->revive_pairs(now_(), slow_);
    } catch (const std::exception& error) {
      GDR_WARN("using a lost rail again failed, and is tried again: %s", error.what());
    }
    recovery.reset();
    lock.lock();
  }
}

}  // namespace gdr::transport
