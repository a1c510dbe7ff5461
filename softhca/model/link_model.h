// The modelled rate and latency of a port's link: it computes when a transfer would complete on a
// link of that speed. The data path then holds the transfer back until that time.
#pragma once

#include <atomic>
#include <cstdint>

namespace softhca {

// The ends of a link that one transfer occupies. Each points to the time (CLOCK_MONOTONIC ns) until
// which that direction of a port is busy; the words lie in shared memory, because several processes
// may send to one port.
struct LinkEnds {
  std::atomic<uint64_t>* near_busy_ns = nullptr;
  std::atomic<uint64_t>* far_busy_ns = nullptr;  // null while the QP is not connected
};

class LinkModel {
 public:
  // `rate_gbps` is in 10^9 bits per second, 0 for no limit; `latency_us` is added to every
  // transfer; `reorder_us` is what random_delay() stays below.
  LinkModel(double rate_gbps, double latency_us, double reorder_us)
      : latency_ns_(latency_us * 1e3), reorder_ns_(reorder_us * 1e3) {
    set_rate(rate_gbps);
  }

  // Returns false when neither a rate nor a latency is set: transfers then run without a delay.
  bool modelled() const { return modelled_.load(std::memory_order_relaxed); }
  void set_rate(double rate_gbps);

  // Reserves the link at both ends for `bytes`, after what is reserved already. A transfer leaves
  // when it is posted, or while the one before it, which completes `now`, is still under way.
  // Returns the time at which the transfer is complete, in CLOCK_MONOTONIC ns.
  uint64_t reserve(const LinkEnds& ends, uint64_t bytes, uint64_t posted, uint64_t now) const;

  // Whether requests are delayed at random, so that those of one QP overtake those of another.
  bool reorders() const { return reorder_ns_ > 0; }
  // Returns ns, of a sequence that is the same in every run.
  uint64_t random_delay();

 private:
  const double latency_ns_;
  const double reorder_ns_;
  std::atomic<uint64_t> random_state_{0};
  std::atomic<double> ns_per_byte_{0};
  std::atomic<bool> modelled_{false};
};

}  // namespace softhca
