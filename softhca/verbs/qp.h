// Queue pairs as the application holds them: ibv_qp, and its two queues.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "softhca/datapath/queue_pair.h"
#include "softhca/datapath/receive_queue.h"
#include "softhca/datapath/send_queue.h"
#include "softhca/verbs/locked_memory.h"
#include "softhca/verbs/pd.h"

namespace softhca {

class Runtime;
struct Cq;

// The ECE options of a QP (ibv_set_ece).
struct Ece {
  uint32_t reported = 0;
  uint32_t wanted = 0;  // set, but not taken yet; 0: none
};

// The requests built between ibv_wr_start and ibv_wr_complete.
struct Builder {
  uint32_t count = 0;
  int error = 0;
  Wqe* current = nullptr;
};

// Behind ibv_create_qp and ibv_create_qp_ex.
struct Qp {
  Qp(Runtime& owner, const Pd& pd, Cq& sends_to, Cq& receives_to, QueuePairConfig config,
     LinkModel& link);

  ibv_qp_ex ex = {};  // begins with ibv_qp
  Runtime& runtime;
  DomainUse domain;
  Cq& send_cq;
  Cq& recv_cq;
  QueuePair pair;
  SendQueue send_queue;
  ReceiveQueue receive_queue;
  MemoryLock buffers;
  Ece ece;                    // under send_queue.mutex()
  Builder builder;            // the same; the mutex is held from ibv_wr_start on
  uint32_t async_events = 0;  // that the application has read, under ex.qp_base.mutex

  static Qp& of(ibv_qp* qp) { return *reinterpret_cast<Qp*>(qp); }
  static Qp& of(ibv_qp_ex* qp) { return *reinterpret_cast<Qp*>(qp); }
  ibv_qp* handle() { return &ex.qp_base; }

  // Carries out what is posted, and hands what cannot be done now to the engine. The send queue's
  // mutex is held.
  void run();
  // Counts a call that posts requests, where they are counted.
  void count_doorbell() const;
};

// As the verbs of these names: null with errno set, or an errno value, on failure.
ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int query_ece(ibv_qp* qp, ibv_ece* ece);
int set_ece(ibv_qp* qp, ibv_ece* ece);
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr);
int destroy_qp(ibv_qp* qp);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
// Takes the ECE options that are set. To be called by a successful change to INIT, RTR or RTS; the
// send queue's mutex is held.
void take_ece(Qp& qp);
// Sets the functions of the ibv_wr_start interface.
void set_qp_writers(ibv_qp_ex* qp);

}  // namespace softhca
