// Completion queues: a ring in shared memory that peers push into and the owner polls.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "softhca/fabric/shared_layout.h"
#include "softhca/verbs/locked_memory.h"

namespace softhca {

class Runtime;

// Behind ibv_create_cq and ibv_create_cq_ex.
struct Cq {
  ibv_cq_ex ex;  // begins with the fields of ibv_cq
  Runtime* runtime;
  SharedCq* shared;
  const Cqe* ring;
  uint32_t index;
  MemoryLock buffer;
  std::mutex poll_mutex;
  Cqe current;                   // of the ibv_start_poll interface, under poll_mutex
  std::atomic<uint32_t> qps{0};  // QPs that complete into it
  // Events that the application has read, under ex.mutex; destroy_cq() waits until as many are
  // acknowledged.
  uint32_t comp_events = 0;
  uint32_t async_events = 0;

  static Cq& of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }
  static Cq& of(ibv_cq_ex* cq) { return *reinterpret_cast<Cq*>(cq); }
  ibv_cq* handle() { return reinterpret_cast<ibv_cq*>(&ex); }

  // Takes the oldest completion; false when there is none. poll_mutex is held.
  bool pop(Cqe* entry);
  // Removes the completions of a QP that is reset or destroyed. The others stay in order,
  // and have the room (as __mlx5_cq_clean() of rdma-core).
  void forget_qp(uint32_t qp_num);
};

// As the verbs of these names: null with errno set, or an errno value, on failure.
ibv_cq* create_cq(ibv_context* context, const ibv_cq_init_attr_ex& attr);
int destroy_cq(ibv_cq* cq);
// EINVAL for fewer entries than there are completions.
int resize_cq(ibv_cq* cq, int entries);
int poll_cq(ibv_cq* cq, int count, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
// Sets the functions of the ibv_start_poll interface.
void set_cq_readers(ibv_cq_ex* cq);

}  // namespace softhca
