#include "base/process_fds.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>

namespace gdr::process_fds {
namespace {

// The handlers of pthread_atfork(3) have no argument, so that their state is global. It is never
// destroyed: descriptors may be closed while the process exits.
struct Registry {
  std::mutex mutex;
  std::vector<uint8_t> registered;  // by descriptor; guarded by mutex
  std::atomic<uint32_t> generation{1};
};

Registry& registry() {
  static auto* const instance = new Registry();
  return *instance;
}

void before_fork() { registry().mutex.lock(); }
void after_fork_in_parent() { registry().mutex.unlock(); }

// Other threads of the parent may have held any lock, so that only async-signal-safe functions are
// called here.
void after_fork_in_child() {
  Registry& all = registry();
  for (size_t fd = 0; fd < all.registered.size(); ++fd) {
    if (all.registered[fd] == 0) continue;
    all.registered[fd] = 0;
    ::close(static_cast<int>(fd));
  }
  all.generation.fetch_add(1, std::memory_order_relaxed);
  all.mutex.unlock();
}

// Installed when the library is loaded: a process may fork while the first descriptor is opened.
// Without memory for the handlers, children keep the descriptors, as they would without them.
[[maybe_unused]] const int g_installed =
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

}  // namespace

Hold::Hold() { registry().mutex.lock(); }
Hold::~Hold() { registry().mutex.unlock(); }

void Hold::add(int fd) {
  Registry& all = registry();
  const auto index = static_cast<size_t>(fd);
  if (all.registered.size() <= index) all.registered.resize(index + 1);
  all.registered[index] = 1;
}

void Hold::remove(int fd) { registry().registered[static_cast<size_t>(fd)] = 0; }

uint32_t generation() { return registry().generation.load(std::memory_order_relaxed); }

}  // namespace gdr::process_fds
