#include "transport/device/port.h"

#include <charconv>
#include <climits>
#include <fstream>
#include <string>

namespace gdr::transport {
namespace {

std::string where(ibv_context* context, int port) {
  return std::string(context->device->name) + ":" + std::to_string(port);
}

}  // namespace

Result<PortState> query_port_state(const verbs::Api& api, ibv_context* context, int port) {
  ibv_port_attr attr{};
  if (int err = api.query_port(context, port, &attr); err != 0) {
    return fail_errno(Code::kSystem, "querying port " + where(context, port) + " failed", err);
  }
  PortState state;
  state.active = attr.state == IBV_PORT_ACTIVE;
  state.link_layer = attr.link_layer;
  state.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
  state.grh_required = (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
  state.max_message_bytes = attr.max_msg_sz != 0 ? attr.max_msg_sz : kDefaultMessageBytes;
  state.lid = attr.lid;
  state.mtu = attr.active_mtu;
  return state;
}

std::string exclusion_reason(ibv_transport_type transport, uint8_t link_layer, bool named) {
  const bool is_ethernet = link_layer == IBV_LINK_LAYER_ETHERNET;
  if (transport == IBV_TRANSPORT_IWARP && !(named && is_ethernet)) {
    return "is an iWARP device, whose queue pairs mostly connect only by the RDMA connection "
           "manager, which NCCL and this plugin do not use. Fix: if they connect without, as those "
           "of eRDMA in its compatible mode do, name the device in NCCL_IB_HCA";
  }
  if (transport != IBV_TRANSPORT_IB && transport != IBV_TRANSPORT_IWARP) {
    return "is neither InfiniBand nor RoCE, as an Elastic Fabric Adapter (EFA), and has no "
           "reliable "
           "connections. Fix: use the network plugin of its vendor, for EFA aws-ofi-nccl";
  }
  if (!is_ethernet && link_layer != IBV_LINK_LAYER_INFINIBAND) {
    return "has a link layer that is neither InfiniBand nor Ethernet";
  }
  return "";
}

int port_speed_mbps(const verbs::Api& api, ibv_context* context, int port,
                    bool use_query_port_speed) {
  constexpr uint64_t kUnitMbps = 100;
  uint64_t units = 0;
  if (use_query_port_speed && api.query_port_speed != nullptr &&
      api.query_port_speed(context, static_cast<uint32_t>(port), &units) == 0 && units > 0 &&
      units <= INT_MAX / kUnitMbps) {
    return static_cast<int>(units * kUnitMbps);
  }
  std::ifstream file(std::string(context->device->ibdev_path) + "/ports/" + std::to_string(port) +
                     "/rate");
  std::string text;
  std::getline(file, text);
  return rate_mbps(text);
}

int rate_mbps(std::string_view text) {
  double gbps = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gbps);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const bool sound = error == std::errc() && gbps > 0 && gbps < 1e6;
  return sound && unit.starts_with(" Gb/sec") ? static_cast<int>(gbps * 1000 + 0.5) : 0;
}

bool PortStates::is_active(int port, Time now) {
  uint64_t drops = 0;
  {
    std::lock_guard lock(mutex_);
    const auto known = answers_.find(port);
    if (known != answers_.end() && now < known->second.at + kFresh) return known->second.active;
    drops = drops_;
  }
  const Result<PortState> state = query_port_state(api_, context_, port);
  const bool active = state && state->active;
  std::lock_guard lock(mutex_);
  if (drops == drops_) answers_[port] = {now, active};
  return active;
}

void PortStates::drop() {
  std::lock_guard lock(mutex_);
  ++drops_;
  answers_.clear();
}

}  // namespace gdr::transport
