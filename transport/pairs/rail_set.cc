#include "transport/pairs/rail_set.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gdr::transport {

bool is_of_kind(const wire::RailAddress& one, const wire::RailAddress& other) {
  return one.gid_type == other.gid_type && is_ipv4_mapped(one.gid) == is_ipv4_mapped(other.gid);
}

Status check_rail_pair(const wire::RailAddress& local, const wire::RailAddress& remote) {
  const auto both = [&] { return to_string(local) + " and the peer's " + to_string(remote); };
  if (remote.mtu < IBV_MTU_256 || remote.mtu > IBV_MTU_4096) {
    return fail(Code::kInternal, "the peer names an impossible MTU for " + to_string(remote));
  }
  if (local.ethernet != remote.ethernet) {
    return fail(Code::kInvalidUsage,
                both() +
                    " are of different link layers (InfiniBand and RoCE). Fix: choose HCAs of one "
                    "fabric with NCCL_IB_HCA");
  }
  if (local.ethernet == 0) return {};
  if (!is_of_kind(local, remote)) {
    return fail(Code::kInvalidUsage,
                both() +
                    " differ in RoCE version or address family and cannot reach each other. "
                    "Fix: set NCCL_IB_GID_INDEX, or NCCL_IB_ROCE_VERSION_NUM and "
                    "NCCL_IB_ADDR_FAMILY, alike on both nodes");
  }
  return {};
}

Status RailSet::add(const Device& device, const RailSpec& spec, const ConnectionOptions& options) {
  Result<RailEnd> rail =
      RailEnd::create(device, static_cast<uint32_t>(rails_.size()), spec, options);
  if (!rail) return forward_error(rail);
  rails_.push_back(std::move(*rail));
  pairs_.clear();
  size_t count = 0;
  for (const RailEnd& each : rails_) count += each.qps().size();
  for (size_t q = 0; pairs_.size() < count; ++q) {
    for (RailEnd& each : rails_) {
      if (q < each.qps().size()) pairs_.push_back(&each.qps()[q]);
    }
  }
  number_pairs();
  return {};
}

void RailSet::arrange(const PairPlan& plan) {
  std::vector<size_t> used(rails_.size());
  pairs_.clear();
  without_qp_ = std::vector<QueuePair>(plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    const auto [rail, standby, has_qp] = plan[i];
    QueuePair& pair = has_qp ? rails_[rail].qps()[used[rail]++] : without_qp_[i];
    pair.rail = rail;
    pair.standby = standby;
    pairs_.push_back(&pair);
  }
  number_pairs();
}

void RailSet::number_pairs() {
  for (size_t i = 0; i < pairs_.size(); ++i) pairs_[i]->index = static_cast<uint32_t>(i);
  active_end_ = std::ranges::find_if(pairs_, [](const QueuePair* pair) { return pair->standby; });
  clear_to_send_ = pairs_.front();
}

void RailSet::drop_standby() {
  pairs_.erase(active_end_, pairs_.end());
  for (RailEnd& rail : rails_) {
    std::vector<QueuePair>& qps = rail.qps();
    while (!qps.empty() && qps.back().standby) qps.pop_back();
  }
  while (rails_.back().qps().empty()) rails_.pop_back();
  number_pairs();
}

void RailSet::destroy_queue_pairs() {
  pairs_.clear();
  for (RailEnd& rail : rails_) rail.qps().clear();
}

int RailSet::post_receives(size_t index, int count, uint64_t wr_id) const {
  ibv_recv_wr requests[kReceiveBatch] = {};
  count = std::min(count, kReceiveBatch);
  for (int i = 0; i < count; ++i) {
    requests[i].wr_id = wr_id;
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (pairs_[index]->qp == nullptr) return 0;
  if (ibv_post_recv(pairs_[index]->qp.get(), requests, &bad) == 0) return count;
  return bad == nullptr ? 0 : static_cast<int>(bad - requests);
}

void RailSet::describe(wire::EndPoint* end) const {
  end->rails = static_cast<uint8_t>(rails_.size());
  end->qps = static_cast<uint16_t>(pairs_.size());
  for (size_t r = 0; r < rails_.size(); ++r) end->rail[r] = rails_[r].address();
  for (size_t i = 0; i < pairs_.size(); ++i) {
    end->qp[i].number = pairs_[i]->number;
    end->qp[i].rail = static_cast<uint8_t>(pairs_[i]->rail);
    end->qp[i].standby = pairs_[i]->standby ? 1 : 0;
  }
}

Status RailSet::check_peer(const wire::EndPoint& peer) const {
  if (peer.qps == pairs_.size()) return {};
  return fail(Code::kInternal, "the peer's number of QPs, " + std::to_string(peer.qps) +
                                   ", differs from this end's, " + std::to_string(pairs_.size()));
}

Status RailSet::check_pair(size_t index, const wire::EndPoint& peer) const {
  return check_rail_pair(rails_[pairs_[index]->rail].address(), peer.rail[peer.qp[index].rail]);
}

void RailSet::set_peer_rails(const wire::EndPoint& peer) {
  for (size_t i = 0; i < pairs_.size(); ++i) {
    pairs_[i]->peer_rail = peer.qp[i].rail;
    pairs_[i]->peer_tables_rkey = peer.rail[peer.qp[i].rail].tables_rkey;
  }
}

}  // namespace gdr::transport
