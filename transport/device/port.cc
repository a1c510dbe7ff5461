#include "transport/device/port.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace gdr::transport {
namespace {

std::string where(ibv_context* context, int port) {
  return std::string(context->device->name) + ":" + std::to_string(port);
}

// Reads a GID's type from sysfs, for libraries without ibv_query_gid_ex: their ibv_query_gid does
// not report it.
GidType gid_type_from_sysfs(ibv_context* context, int port, int index) {
  std::ifstream file(std::string(context->device->ibdev_path) + "/ports/" + std::to_string(port) +
                     "/gid_attrs/types/" + std::to_string(index));
  std::string text;
  std::getline(file, text);
  return text.find("v2") != std::string::npos ? GidType::kRoceV2 : GidType::kRoceV1;
}

GidType gid_type_of(uint32_t verbs_type) {
  switch (verbs_type) {
    case IBV_GID_TYPE_ROCE_V1:
      return GidType::kRoceV1;
    case IBV_GID_TYPE_ROCE_V2:
      return GidType::kRoceV2;
    default:
      return GidType::kIb;
  }
}

bool read_gid(const verbs::Api& api, ibv_context* context, int port, int index, GidEntry* entry) {
  entry->index = index;
  if (api.query_gid_ex != nullptr) {
    ibv_gid_entry found{};
    if (api.query_gid_ex(context, port, index, &found, 0, sizeof(found)) != 0) return false;
    std::memcpy(entry->gid.data(), found.gid.raw, entry->gid.size());
    entry->type = gid_type_of(found.gid_type);
    return true;
  }
  ibv_gid gid{};
  if (api.query_gid(context, port, index, &gid) != 0) return false;
  std::memcpy(entry->gid.data(), gid.raw, entry->gid.size());
  entry->type = gid_type_from_sysfs(context, port, index);
  return true;
}

// NCCL_IB_GID_INDEX is for RoCE; on InfiniBand the LID routes within a subnet, and the FLID in a
// GID between subnets.
Result<GidEntry> resolve_infiniband_gid(const verbs::Api& api, ibv_context* context, int port,
                                        int routable_index) {
  GidEntry entry{};
  if (routable_index > 0 && read_gid(api, context, port, routable_index, &entry) &&
      flid_of(entry.gid) != 0) {
    return entry;
  }
  if (read_gid(api, context, port, 0, &entry)) return entry;
  return fail(Code::kSystem, where(context, port) + " has no GID at index 0");
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

Result<GidEntry> resolve_gid(const verbs::Api& api, ibv_context* context, int port,
                             const GidPreference& preference) {
  ibv_port_attr attr{};
  if (int err = api.query_port(context, port, &attr); err != 0) {
    return fail_errno(Code::kSystem, "querying port " + where(context, port) + " failed", err);
  }
  if (attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
    return resolve_infiniband_gid(
        api, context, port,
        preference.routable_index < attr.gid_tbl_len ? preference.routable_index : 0);
  }
  std::vector<GidEntry> entries;
  for (int index = 0; index < attr.gid_tbl_len; ++index) {
    GidEntry entry{};
    if (read_gid(api, context, port, index, &entry)) entries.push_back(entry);
  }
  Result<GidEntry> chosen = select_gid(entries, preference);
  if (!chosen) chosen.error().text = where(context, port) + ": " + chosen.error().text;
  return chosen;
}

}  // namespace gdr::transport
