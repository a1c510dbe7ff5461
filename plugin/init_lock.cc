#include "plugin/init_lock.h"

#include <unistd.h>

namespace gdr::plugin {

bool InitLock::lock() {
  const pid_t self = getpid();
  for (;;) {
    pid_t owner = 0;
    if (owner_.compare_exchange_strong(owner, self, std::memory_order_acquire)) return true;
    if (owner != self) return false;
    owner_.wait(owner, std::memory_order_relaxed);
  }
}

void InitLock::unlock() {
  owner_.store(0, std::memory_order_release);
  owner_.notify_all();
}

}  // namespace gdr::plugin
