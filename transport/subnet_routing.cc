#include "transport/subnet_routing.h"

#include <algorithm>

#include "base/log.h"

namespace gdr::transport {
namespace {

bool is_in_subnet_of(const Device& device, std::span<const wire::Gid> peer,
                     const TransportOptions& options) {
  const wire::Gid own = subnet_gid(device, options.connection);
  return std::ranges::any_of(peer, [&](const wire::Gid& other) {
    return is_same_subnet(own, other, options.subnet_prefix_bits);
  });
}

// The device that connects to the peer in place of the one that NCCL chose.
size_t choose_device(const std::vector<Device>& devices, size_t given,
                     std::span<const wire::Gid> peer, const TransportOptions& options) {
  if (is_in_subnet_of(devices[given], peer, options)) return given;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!is_in_subnet_of(devices[i], peer, options)) continue;
    GDR_INFO(log::kNet, "the connection uses %s instead of %s, since it is in the peer's subnet",
             to_string(devices[i]).c_str(), to_string(devices[given]).c_str());
    return i;
  }
  return given;
}

}  // namespace

wire::Gid subnet_gid(const Device& device, const ConnectionOptions& options) {
  const HcaContext& hca = *device.hca;
  Result<PortState> state = query_port_state(hca.api(), hca.context(), device.port);
  if (!state || !state->active || !state->ethernet) return {};
  Result<GidEntry> gid = resolve_gid(device, options.gid);
  return gid ? gid->gid : wire::Gid{};
}

EndRails choose_rails(const std::vector<Device>& devices, RailChoice choice,
                      std::span<const wire::Gid> peer, const TransportOptions& options) {
  if (options.subnet_aware_routing && choice.active.size() == 1) {
    choice.active.front() = choose_device(devices, choice.active.front(), peer, options);
    std::erase(choice.standby, choice.active.front());
  }
  EndRails rails;
  for (size_t device : choice.active) rails.active.push_back(devices[device]);
  for (size_t device : choice.standby) rails.standby.push_back(devices[device]);
  return rails;
}

}  // namespace gdr::transport
