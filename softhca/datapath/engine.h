// The engine: the thread that continues what a posting thread could not finish. It retries
// requests, completes asynchronous transfers, triggers timed faults and serves the copies that
// peers ask for. It is started when there is work for the first time, and sleeps on a futex while
// there is none.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "softhca/datapath/copy_requests.h"
#include "softhca/datapath/send_queue.h"
#include "softhca/fabric/gpu_memory.h"

namespace softhca {

// The background thread of one process and the send queues that it serves.
class Engine {
 public:
  Engine(Process& process, Faults& faults, const GpuMemory& gpu)
      : process_(process), faults_(faults), gpu_(gpu), copy_server_(process) {}

  // Progresses a queue in the calling thread, and takes it over if something is left to do. The
  // queue's mutex is held.
  void progress(SendQueue& queue);
  // Returns when the engine does not refer to the queue any more, which must be destroyed or never
  // used again. The queue's mutex is not held.
  void forget(SendQueue& queue);
  // Starts the thread unless it runs already.
  void start();
  // Makes the thread look for work. Any process may do so (ArenaHeader::engine_wake).
  void wake();

 private:
  void run();
  void add(SendQueue& queue);
  // Returns when it has to be called again: CLOCK_MONOTONIC ns, 0 for at once, UINT64_MAX for not
  // by time.
  uint64_t serve_queues();
  // Progresses one queue; false when the engine is done with it. Lowers `next` to the time of its
  // next turn.
  bool serve_queue(SendQueue& queue, uint64_t* next);
  void adopt_gpu();
  void sleep(uint32_t seen, uint64_t until);

  Process& process_;
  Faults& faults_;
  const GpuMemory& gpu_;
  std::once_flag started_;
  std::mutex mutex_;
  std::vector<SendQueue*> added_;   // under mutex_
  std::vector<SendQueue*> active_;  // of the engine's thread alone, as the members below
  CopyServer copy_server_;
  int adopted_gpu_ = -1;
};

}  // namespace softhca
