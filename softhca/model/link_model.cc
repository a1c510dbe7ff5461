#include "softhca/model/link_model.h"

#include <algorithm>

#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

uint64_t take(std::atomic<uint64_t>& busy_until, uint64_t from, uint64_t duration) {
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

uint64_t LinkModel::reserve(const Qp& qp, const Wqe& wqe, uint64_t now) {
  uint64_t bytes = wqe.inline_bytes;
  for (uint32_t i = 0; i < wqe.num_sge; ++i) bytes += wqe.sge[i].length;
  auto duration = static_cast<uint64_t>(static_cast<double>(bytes) * ns_per_byte_.load());
  SharedPort& own = qp.process->port(qp.shared->device, qp.shared->port);
  uint64_t end = take(wqe.fetches() ? own.receive_busy_ns : own.send_busy_ns, now, duration);
  if (qp.remote != nullptr) {
    SharedPort& other = qp.peer->arena().header().ports[qp.remote->device][qp.remote->port - 1];
    auto& side = wqe.fetches() ? other.send_busy_ns : other.receive_busy_ns;
    // The bytes leave and arrive at once: the far side is busy until at least `end`.
    end = std::max(end, take(side, end - duration, duration));
  }
  return end + static_cast<uint64_t>(latency_ns_);
}

}  // namespace softhca
