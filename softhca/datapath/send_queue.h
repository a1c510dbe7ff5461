// The send queue of a QP: requests are carried out in order, in the posting thread where that is
// possible, else by the engine.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softhca/datapath/work_request.h"

namespace softhca {

struct Qp;

// What a queue needs next.
struct Pending {
  bool any = false;      // requests are not finished
  bool flying = false;   // some are under way: look again at once
  uint64_t wake_at = 0;  // CLOCK_MONOTONIC ns, when not flying
};

class SendQueue {
 public:
  SendQueue(Qp& qp, const ibv_qp_cap& cap);

  // Held by everything below but polled().
  std::mutex mutex;
  bool with_engine = false;  // the engine looks after it

  // The next free slot, or null when the queue is full. Not yet posted.
  Wqe* claim();
  void commit(uint32_t count) {
    tail_ += count;
    claimed_ = 0;
  }
  void abandon() { claimed_ = 0; }
  int post(const ibv_send_wr& wr);

  Pending progress();
  // Forgets everything (RESET).
  void clear();

  void polled(uint64_t release) { reclaimed_.store(release, std::memory_order_relaxed); }

 private:
  Wqe& at(uint64_t position) { return ring_[position & (ring_.size() - 1)]; }
  // Moves on what is under way, and finishes in order what has arrived.
  void retire();
  enum class Step { kNext, kWait };
  Step launch(Wqe& wqe, uint64_t now);
  void count_moved(const Flight& flight);
  Step unanswered(Wqe& wqe, uint64_t now);
  Step not_ready(Wqe& wqe, uint64_t now);
  Step finish(Wqe& wqe, ibv_wc_status status);

  Qp& qp_;
  const uint32_t depth_;
  std::vector<Wqe> ring_;
  std::vector<ibv_sge> sges_;
  std::vector<uint8_t> inline_;
  std::unique_ptr<Flight> scratch_ = std::make_unique<Flight>();
  // Positions, ever growing: reclaimed <= head (oldest unfinished) <= next (to start) <= tail.
  std::atomic<uint64_t> reclaimed_{0};
  uint64_t head_ = 0;
  uint64_t next_ = 0;
  uint64_t tail_ = 0;
  uint32_t claimed_ = 0;
};

}  // namespace softhca
