#include "transport/device/port.h"

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
