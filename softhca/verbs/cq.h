// Completion queues: a ring in shared memory that peers push into and the owner polls.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>

#include "softhca/fabric/peer.h"
#include "softhca/fabric/process.h"

namespace softhca {

struct Cq {
  ibv_cq_ex ex;  // begins with the fields of ibv_cq
  Process* process;
  SharedCq* shared;
  const Cqe* ring;
  uint32_t index;
  std::mutex poll_mutex;
  Cqe current;  // between start_poll and end_poll
  std::atomic<uint32_t> qps{0};
  // Events got, under ex.mutex; destruction waits until as many are acknowledged.
  uint32_t comp_events = 0;
  uint32_t async_events = 0;

  static Cq& of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }
  static Cq& of(ibv_cq_ex* cq) { return *reinterpret_cast<Cq*>(cq); }
  ibv_cq* handle() { return reinterpret_cast<ibv_cq*>(&ex); }

  // Pops the oldest completion; poll_mutex is held.
  bool pop(Cqe* entry);
  // Makes the pollers skip what a destroyed QP left here.
  void forget_qp(uint32_t qp_num);
};

ibv_cq* create_cq(ibv_context* context, const ibv_cq_init_attr_ex& attr);
int destroy_cq(ibv_cq* cq);
int poll_cq(ibv_cq* cq, int count, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
void set_cq_readers(ibv_cq_ex* cq);

// Adds a completion to a CQ of `owner`. An overrun puts the CQ in error, tells its owner, and
// returns false.
bool push_completion(Process& process, const Peer& owner, uint32_t cq_index, const Cqe& entry,
                     bool solicited);

}  // namespace softhca
