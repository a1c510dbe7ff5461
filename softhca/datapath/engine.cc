#include "softhca/datapath/engine.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "softhca/model/clock.h"
#include "softhca/model/faults.h"
#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

constexpr uint64_t kNever = UINT64_MAX;

void futex_wait(std::atomic<uint32_t>* word, uint32_t seen, uint64_t ns) {
  timespec time = {static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, ns == kNever ? nullptr : &time, nullptr, 0);
}

}  // namespace

void Engine::start() {
  std::call_once(started_, [this] {
    // Signals are the application's: none of them may land on this thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread([this] { run(); });
    pthread_setname_np(thread.native_handle(), "softhca");
    thread.detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
}

void Engine::wake() {
  ArenaHeader& header = process_.arena().header();
  header.engine_wake.fetch_add(1);
  if (header.engine_sleeps.load() != 0) {
    syscall(SYS_futex, &header.engine_wake, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

void Engine::add(Qp& qp) {
  start();
  qp.sq->with_engine = true;
  qp.on_engine.store(true);
  {
    std::lock_guard lock(mutex_);
    added_.push_back(&qp);
  }
  wake();
}

void Engine::forget(Qp& qp) {
  while (qp.on_engine.load()) {
    wake();
    std::this_thread::yield();
  }
}

void Engine::run() {
  std::atomic<uint32_t>& wakes = process_.arena().header().engine_wake;
  for (;;) {
    uint32_t seen = wakes.load();
    adopt_gpu();
    uint64_t next = std::min(serve_queues(), process_.faults().serve());
    if (copy_server_.serve()) next = 0;
    if (next == 0) {
      std::this_thread::yield();
    } else {
      sleep(seen, next);
    }
  }
}

// Copies cost less in a thread that has the context already.
void Engine::adopt_gpu() {
  int device = process_.gpu().ready_device();
  if (device == adopted_gpu_) return;
  adopted_gpu_ = device;
  // Without it the copies make the context current themselves.
  static_cast<void>(GpuCopier::get()->adopt_thread(device));
}

uint64_t Engine::serve_queues() {
  {
    std::lock_guard lock(mutex_);
    active_.insert(active_.end(), added_.begin(), added_.end());
    added_.clear();
  }
  uint64_t next = kNever;
  std::erase_if(active_, [&](Qp* qp) {
    {
      // Whoever holds it may wait for this or for another process's engine: never wait for it.
      std::unique_lock lock(qp->sq->mutex, std::try_to_lock);
      if (!lock.owns_lock()) {
        next = 0;
        return false;
      }
      Pending pending = qp->dying.load() ? Pending{} : qp->sq->progress();
      if (pending.any) {
        next = std::min(next, pending.flying ? 0 : pending.wake_at == 0 ? kNever : pending.wake_at);
        return false;
      }
      qp->sq->with_engine = false;
    }
    qp->on_engine.store(false);
    return true;
  });
  return next;
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
