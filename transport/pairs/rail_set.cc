#include "transport/pairs/rail_set.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

#include "transport/memory/system_facts.h"

namespace gdr::transport {
namespace {

GidEntry gid_of(const wire::RailAddress& address) {
  return {address.gid_index, address.gid, static_cast<GidType>(address.gid_type)};
}

Result<wire::RailAddress> resolve_address(const Device& device, const GidPreference& preference) {
  const HcaContext& hca = *device.hca;
  Result<PortState> state = query_port_state(hca.api(), hca.context(), device.port);
  if (!state) return forward_error(state);
  Result<GidEntry> gid = resolve_gid(device, preference);
  if (!gid) return forward_error(gid);
  wire::RailAddress address{};
  std::snprintf(address.hca, sizeof(address.hca), "%s", hca.name().c_str());
  std::copy(gid->gid.begin(), gid->gid.end(), address.gid.begin());
  address.lid = state->lid;
  address.needs_grh = state->grh_required ? 1 : 0;
  address.port = static_cast<uint8_t>(device.port);
  address.ethernet = state->ethernet ? 1 : 0;
  address.mtu = static_cast<uint8_t>(state->mtu);
  address.gid_type = static_cast<uint8_t>(gid->type);
  address.gid_index = static_cast<uint8_t>(gid->index);
  if (device.rail >= 0 && device.rail < 255) address.rail = static_cast<uint8_t>(device.rail + 1);
  return address;
}

}  // namespace

Result<RailEnd> RailEnd::create(const Device& device, const RailSpec& spec,
                                const ConnectionOptions& options) {
  RailEnd end;
  end.device_ = device;
  Result<wire::RailAddress> address = resolve_address(device, options.gid);
  if (!address) return forward_error(address);
  end.address_ = *address;

  const HcaContext& hca = *device.hca;
  const int receives = spec.posts_receives ? spec.depths.receive : 0;
  const int entries = spec.qps * (spec.depths.send + receives) + spec.extra_completions;
  ibv_cq* cq = hca.api().create_cq(hca.context(), entries, nullptr, nullptr, 0);
  if (cq == nullptr) {
    const int err = errno;
    return fail_making(
        hca,
        "creating a CQ of " + std::to_string(entries) + " entries on " + hca.name() + " failed",
        err);
  }
  end.cq_ = verbs::UniqueCq(cq, {&hca.api()});
  for (int i = 0; i < spec.qps; ++i) {
    Result<QueuePair> qp = create_queue_pair(device, cq, spec.depths);
    if (!qp) return forward_error(qp);
    end.qps_.push_back(std::move(*qp));
  }
  return end;
}

Result<wire::RailAddress> RailEnd::present_address(const ConnectionOptions& options) const {
  GidPreference preference = options.gid;
  if (address_.ethernet != 0) {
    preference.forced_index = find_gid(device_, gid_of(address_)).value_or(preference.forced_index);
  }
  return resolve_address(device_, preference);
}

std::string to_string(const wire::RailAddress& address) {
  std::string text;
  text.reserve(sizeof(address.hca) + 64);  // one allocation: this is in a line for each connection
  text.append(address.hca).append(":").append(std::to_string(address.port));
  if (address.ethernet == 0) {
    const uint16_t flid = flid_of(address.gid);
    text.append(" lid ").append(std::to_string(address.lid));
    if (flid != 0) text.append(" flid ").append(std::to_string(flid));
    return text;
  }
  return text + " gid " + to_string(address.gid) + " (" +
         to_string(static_cast<GidType>(address.gid_type)) + ", index " +
         std::to_string(address.gid_index) + ")";
}

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
  Result<RailEnd> rail = RailEnd::create(device, spec, options);
  if (!rail) return forward_error(rail);
  rails_.push_back(std::move(*rail));
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
    end->qp[i].ece_supported = pairs_[i]->ece ? 1 : 0;
    end->qp[i].ece = pairs_[i]->ece.value_or(wire::Ece{});
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

RailTables::RailTables(size_t pairs, bool statements)
    : memory_(map_pages<wire::Tables>(statements ? offsetof(wire::Tables, pairs) +
                                                       pairs * sizeof(wire::PairStatements)
                                                 : offsetof(wire::Tables, scratch))) {}

Status RailTables::add_rail(const HcaContext& hca) {
  Result<verbs::UniqueMr> mr = register_block(hca, memory_.get(), memory_.get_deleter().bytes);
  if (!mr) return forward_error(mr);
  lkeys_[registrations_.size()] = (*mr)->lkey;
  registrations_.push_back(std::move(*mr));
  return {};
}

void RailTables::describe(wire::EndPoint* end) const {
  end->tables_address = reinterpret_cast<uint64_t>(memory_.get());
  for (size_t rail = 0; rail < registrations_.size(); ++rail) {
    end->rail[rail].tables_rkey = registrations_[rail]->rkey;
  }
}

}  // namespace gdr::transport
