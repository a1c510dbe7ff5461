#include "softhca/model/link_model.h"

#include <algorithm>

namespace softhca {

namespace {

// Appends `duration` to what a direction of a port has to carry; returns the new end.
uint64_t occupy(std::atomic<uint64_t>& busy_until, uint64_t from, uint64_t duration) {
  uint64_t busy = busy_until.load();
  for (;;) {
    uint64_t end = std::max(busy, from) + duration;
    if (busy_until.compare_exchange_weak(busy, end)) return end;
  }
}

}  // namespace

void LinkModel::set_rate(double rate_gbps) {
  ns_per_byte_.store(rate_gbps > 0 ? 8 / rate_gbps : 0);
  modelled_.store(rate_gbps > 0 || latency_ns_ > 0);
}

uint64_t LinkModel::reserve(const LinkEnds& ends, uint64_t bytes, uint64_t now) const {
  auto duration = static_cast<uint64_t>(static_cast<double>(bytes) * ns_per_byte_.load());
  uint64_t end = occupy(*ends.near_busy_ns, now, duration);
  if (ends.far_busy_ns != nullptr) {
    // The bytes leave one port while they arrive at the other: both are busy over the same time.
    end = std::max(end, occupy(*ends.far_busy_ns, end - duration, duration));
  }
  return end + static_cast<uint64_t>(latency_ns_);
}

}  // namespace softhca
