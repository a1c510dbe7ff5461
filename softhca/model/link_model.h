// Rate and latency of a port's link, when the configuration sets them: when a transfer is due.
#pragma once

#include <atomic>
#include <cstdint>

namespace softhca {

struct Qp;
struct Wqe;

class LinkModel {
 public:
  LinkModel(double rate_gbps, double latency_us) : latency_ns_(latency_us * 1e3) {
    set_rate(rate_gbps);
  }

  bool modelled() const { return modelled_.load(std::memory_order_relaxed); }
  // 0: as fast as it goes.
  void set_rate(double rate_gbps);

  // Takes the link at both ends for the request's bytes; returns when it is done (ns).
  uint64_t reserve(const Qp& qp, const Wqe& wqe, uint64_t now);

 private:
  const double latency_ns_;
  std::atomic<double> ns_per_byte_{0};
  std::atomic<bool> modelled_{false};
};

}  // namespace softhca
