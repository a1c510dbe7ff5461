#include "transport/pairs/rail_end.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

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

Result<RailEnd> RailEnd::create(const Device& device, uint32_t rail, const RailSpec& spec,
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
    qp->rail = rail;
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

}  // namespace gdr::transport
