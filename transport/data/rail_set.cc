#include "transport/data/rail_set.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gdr::transport {
namespace {

Status check_rail_pair(const wire::RailAddress& local, const wire::RailAddress& remote) {
  std::string both = to_string(local) + " and the peer's " + to_string(remote);
  if (remote.mtu < IBV_MTU_256 || remote.mtu > IBV_MTU_4096) {
    return fail(Code::kInternal, "the peer names an impossible MTU for " + to_string(remote));
  }
  if (local.ethernet != remote.ethernet) {
    return fail(Code::kInvalidUsage,
                both +
                    " are of different link layers (InfiniBand and RoCE). Fix: choose HCAs of one "
                    "fabric with NCCL_IB_HCA");
  }
  if (local.ethernet == 0) return {};
  if (local.gid_type != remote.gid_type ||
      is_ipv4_mapped(local.gid) != is_ipv4_mapped(remote.gid)) {
    return fail(Code::kInvalidUsage,
                both +
                    " differ in RoCE version or address family and cannot reach each other. "
                    "Fix: set NCCL_IB_GID_INDEX, or NCCL_IB_ROCE_VERSION_NUM and "
                    "NCCL_IB_ADDR_FAMILY, alike on both nodes");
  }
  return {};
}

}  // namespace

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
  next_ = pairs_.begin();
  return {};
}

void RailSet::destroy_queue_pairs() {
  pairs_.clear();
  for (RailEnd& rail : rails_) rail.qps().clear();
}

bool RailSet::post_receives(size_t index, int count) {
  ibv_recv_wr requests[kReceiveBatch] = {};
  count = std::min(count, kReceiveBatch);
  for (int i = 0; i < count; ++i) {
    requests[i].wr_id = index;
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(pairs_[index]->qp.get(), requests, &bad) == 0;
}

void RailSet::describe(wire::EndPoint* end) const {
  end->rails = static_cast<uint8_t>(rails_.size());
  end->qps = static_cast<uint16_t>(pairs_.size());
  for (size_t r = 0; r < rails_.size(); ++r) end->rail[r] = rails_[r].address();
  for (size_t i = 0; i < pairs_.size(); ++i) {
    end->qp[i].number = pairs_[i]->qp->qp_num;
    end->qp[i].rail = static_cast<uint8_t>(pairs_[i]->rail);
  }
}

Status RailSet::check_peer(const wire::EndPoint& peer) const {
  if (peer.qps != pairs_.size()) {
    return fail(Code::kInternal, "the peer's number of QPs, " + std::to_string(peer.qps) +
                                     ", differs from this end's, " + std::to_string(pairs_.size()));
  }
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const wire::RailAddress& local = rails_[pairs_[i]->rail].address();
    const wire::RailAddress& remote = peer.rail[peer.qp[i].rail];
    if (Status status = check_rail_pair(local, remote); !status) return status;
  }
  return {};
}

void RailSet::set_peer_rails(const wire::EndPoint& peer) {
  for (size_t i = 0; i < pairs_.size(); ++i) {
    pairs_[i]->peer_rail = peer.qp[i].rail;
    pairs_[i]->peer_tables_rkey = peer.rail[peer.qp[i].rail].tables_rkey;
  }
}

}  // namespace gdr::transport
