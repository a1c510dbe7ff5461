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

uint64_t LinkModel::reserve(const LinkEnds& ends, uint64_t bytes, uint64_t posted,
                            uint64_t now) const {
  const auto latency = static_cast<uint64_t>(latency_ns_);
  const uint64_t from = std::max(posted, now - std::min(now, latency));
  auto duration = static_cast<uint64_t>(static_cast<double>(bytes) * ns_per_byte_.load());
  uint64_t end = occupy(*ends.near_busy_ns, from, duration);
  if (ends.far_busy_ns != nullptr) {
    // The bytes leave one port while they arrive at the other: both are busy over the same time.
    end = std::max(end, occupy(*ends.far_busy_ns, end - duration, duration));
  }
  return end + latency;
}

// SplitMix64 gives a number from 0 to 1.
uint64_t LinkModel::random_delay() {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t value = random_state_.fetch_add(kStep) + kStep;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  const double part = static_cast<double>((value ^ value >> 31) >> 11) * 0x1p-53;
  return static_cast<uint64_t>(reorder_ns_ * part);
}

}  // namespace softhca
