// The send queue of a QP. Requests are carried out in order, by the posting thread where that is
// possible, else by the engine.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softhca/datapath/queue_pair.h"
#include "softhca/datapath/work_request.h"
#include "softhca/model/faults.h"

namespace softhca {

// What a queue needs next.
struct Pending {
  bool any = false;          // requests are not finished
  bool in_progress = false;  // some have been started: call progress() again at once
  uint64_t wake_at = 0;      // else when to call it again, CLOCK_MONOTONIC ns; 0: not by time
};

class SendQueue {
 public:
  SendQueue(QueuePair& qp, Faults& faults);

  // Serialises posting and progress. To be held for every function below.
  std::mutex& mutex() { return mutex_; }

  // Returns false for a request that a QP of this type does not carry out.
  static bool supports(ibv_wr_opcode opcode, ibv_qp_type type);
  // Returns the next free slot, or null when the queue is full. The slot is posted by commit();
  // abandon() gives all claimed slots back.
  Wqe* claim();
  void commit(uint32_t count);
  void abandon() { claimed_ = 0; }
  // Claims a slot, fills it and commits it: 0, EINVAL or ENOMEM, as ibv_post_send.
  int post(const ibv_send_wr& wr);

  // Retires completed requests and starts new ones, without waiting.
  Pending progress();
  // Aborts and forgets all requests, without completions (RESET).
  void clear();

 private:
  friend class Engine;  // the members at the end

  Wqe& at(uint64_t position) { return ring_[position & (ring_.size() - 1)]; }
  // Advances requests in progress, and finishes in order those that are completed. Returns when to
  // go on (CLOCK_MONOTONIC ns) if the oldest one waits for its acknowledgement, else 0.
  uint64_t retire();
  // Delays the requests that were posted since it was last called, each from now on.
  void delay_at_random();
  // Completes an asynchronous transfer at the receiver. False when it has to be started again.
  bool settle(Wqe& wqe);
  bool loses_packet(const Wqe& wqe);
  void choose_ack(Wqe& wqe);
  void await_ack(Wqe& wqe);
  // Lets a request that was delivered wait until both ends reach each other again.
  void lose_ack(Wqe& wqe);
  // Returns true when a request that was delivered is acknowledged after all.
  bool acknowledged_late(Wqe& wqe);
  static bool delivered(const Wqe& wqe);
  enum class Step { kNext, kWait };
  Step start(Wqe& wqe, uint64_t now);
  // Counts the start of a request for the faults at events. Returns the status with which one of
  // them ends it, none when it goes on.
  std::optional<ibv_wc_status> begin(Wqe& wqe);
  void count_moved(const Transfer& transfer);
  void count_posted(uint32_t requests);
  Step no_answer(Wqe& wqe, uint64_t now);
  Step receiver_not_ready(Wqe& wqe, uint64_t now);
  Step wait_for_earlier(Wqe& wqe);
  Step finish_after_earlier(Wqe& wqe, ibv_wc_status status);
  Step finish_next(Wqe& wqe, ibv_wc_status status);
  void finish(Wqe& wqe, ibv_wc_status status);
  void report(const Wqe& wqe, ibv_wc_status status);

  QueuePair& qp_;
  Faults& faults_;
  std::mutex mutex_;
  const uint32_t depth_;
  std::vector<Wqe> ring_;
  std::vector<ibv_sge> sges_;
  std::vector<uint8_t> inline_;
  std::unique_ptr<Transfer> scratch_ = std::make_unique<Transfer>();
  // Positions, ever growing: qp_.sends_polled() <= head (oldest unfinished) <= settled (oldest
  // whose transfer is in progress; those before it wait for their acknowledgement) <= next (to
  // start) <= tail.
  uint64_t head_ = 0;
  uint64_t settled_ = 0;
  uint64_t next_ = 0;
  uint64_t tail_ = 0;
  uint64_t delayed_ = 0;  // up to where delay_at_random() has come
  uint32_t claimed_ = 0;

  bool on_engine_ = false;    // the engine progresses the queue; under mutex_
  uint64_t engine_turn_ = 0;  // when it does so next, CLOCK_MONOTONIC ns; under mutex_
  // How often the engine's lists name this queue; it must not be destroyed before 0.
  std::atomic<uint32_t> engine_references_{0};
  std::atomic<bool> closing_{false};
};

}  // namespace softhca
