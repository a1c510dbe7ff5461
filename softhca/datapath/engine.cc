#include "softhca/datapath/engine.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/blocked_signals.h"
#include "softhca/datapath/engine_wake.h"
#include "softhca/gpu/copier.h"
#include "softhca/model/clock.h"

namespace softhca {

namespace {

constexpr uint64_t kNever = UINT64_MAX;

void futex_wait(std::atomic<uint32_t>* word, uint32_t seen, uint64_t ns) {
  timespec time = {static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, ns == kNever ? nullptr : &time, nullptr, 0);
}

// When the engine has to progress a queue again: CLOCK_MONOTONIC ns, 0 for at once.
uint64_t next_turn(const Pending& pending) {
  if (pending.in_progress) return 0;
  return pending.wake_at == 0 ? kNever : pending.wake_at;
}

}  // namespace

void Engine::start() {
  std::call_once(started_, [this] {
    // Signals are the application's: its handlers must not run in this thread.
    const gdr::BlockedSignals blocked;
    std::thread thread([this] { run(); });
    pthread_setname_np(thread.native_handle(), "softhca");
    thread.detach();
  });
}

void Engine::wake() { wake_engine(process_.arena().header()); }

void Engine::progress(SendQueue& queue) {
  Pending pending = queue.progress();
  if (!pending.any) return;
  if (!queue.on_engine_) {
    add(queue);
  } else if (const uint64_t turn = next_turn(pending); turn < queue.engine_turn_) {
    // The engine may sleep until later, as for an acknowledgement that never comes.
    queue.engine_turn_ = turn;
    wake();
  }
}

void Engine::add(SendQueue& queue) {
  start();
  queue.on_engine_ = true;
  queue.engine_turn_ = 0;
  // A count, not a flag: the engine may still have to drop its reference from the time before.
  queue.engine_references_.fetch_add(1);
  {
    std::lock_guard lock(mutex_);
    added_.push_back(&queue);
  }
  wake();
}

void Engine::forget(SendQueue& queue) {
  queue.closing_.store(true);
  while (queue.engine_references_.load() != 0) {
    wake();
    std::this_thread::yield();
  }
}

void Engine::run() {
  // The kernel would round the times of modelled links up to 50 microseconds.
  prctl(PR_SET_TIMERSLACK, 1);
  std::atomic<uint32_t>& wakes = process_.arena().header().engine_wake;
  for (;;) {
    uint32_t seen = wakes.load();
    adopt_gpu();
    uint64_t next = std::min(serve_queues(), faults_.serve());
    if (copy_server_.serve()) next = 0;
    if (next == 0) {
      std::this_thread::yield();
    } else {
      sleep(seen, next);
    }
  }
}

// Copies cost less in a thread that has the device's context current already. Where that fails,
// each copy makes the context current itself.
void Engine::adopt_gpu() {
  int device = gpu_.ready_device();
  if (device == adopted_gpu_) return;
  adopted_gpu_ = device;
  static_cast<void>(GpuCopier::get()->adopt_thread(device));
}

uint64_t Engine::serve_queues() {
  {
    std::lock_guard lock(mutex_);
    active_.insert(active_.end(), added_.begin(), added_.end());
    added_.clear();
  }
  uint64_t next = kNever;
  std::erase_if(active_, [&](SendQueue* queue) {
    if (serve_queue(*queue, &next)) return false;
    queue->engine_references_.fetch_sub(1);  // the queue may be destroyed from here on
    return true;
  });
  return next;
}

bool Engine::serve_queue(SendQueue& queue, uint64_t* next) {
  // The thread that holds the mutex may wait for this engine or another process's: waiting for it
  // here could deadlock.
  std::unique_lock lock(queue.mutex(), std::try_to_lock);
  if (!lock.owns_lock()) {
    *next = 0;
    return true;
  }
  Pending pending = queue.closing_.load() ? Pending{} : queue.progress();
  if (!pending.any) {
    queue.on_engine_ = false;
    return false;
  }
  queue.engine_turn_ = next_turn(pending);
  *next = std::min(*next, queue.engine_turn_);
  return true;
}

void Engine::sleep(uint32_t seen, uint64_t until) {
  uint64_t now = now_ns();
  if (until <= now) return;
  ArenaHeader& header = process_.arena().header();
  header.engine_sleeps.store(1);
  futex_wait(&header.engine_wake, seen, until == kNever ? kNever : until - now);
  header.engine_sleeps.store(0);
}

}  // namespace softhca
