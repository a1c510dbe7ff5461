// The thread that carries on what a posting thread could not finish. It sleeps while there is
// nothing to do, and starts only when there is something for the first time.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "softhca/datapath/copy_requests.h"

namespace softhca {

class Process;
struct Qp;

class Engine {
 public:
  explicit Engine(Process& process) : process_(process), copy_server_(process) {}

  // Looks after a QP until its send queue is empty. Its sq->mutex is held.
  void add(Qp& qp);
  // Returns when the engine does not know the QP any more. `dying` is set; sq->mutex is not held.
  void forget(Qp& qp);
  // Starts the thread if it does not run yet.
  void start();
  void wake();

 private:
  void run();
  // Each returns the time of its next turn (ns), 0 for at once, UINT64_MAX for none.
  uint64_t serve_queues();
  void adopt_gpu();
  void sleep(uint32_t seen, uint64_t until);

  Process& process_;
  std::once_flag started_;
  std::mutex mutex_;
  std::vector<Qp*> added_;   // under mutex_
  std::vector<Qp*> active_;  // the thread's own, as the rest
  CopyServer copy_server_;
  int adopted_gpu_ = -1;
};

}  // namespace softhca
