#include "transport/device/port.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <vector>

namespace gdr::transport {
namespace {

// A bit code of ibv_port_attr and what it stands for.
struct CodeValue {
  unsigned code;
  int value;
};

// active_speed: Mb/s of one lane, rounded as NCCL's net_ib does. IBTA specification, volume 1,
// PortInfo:LinkSpeedActive and LinkSpeedExtActive.
constexpr CodeValue kLaneSpeeds[] = {
    {1, 2500},     // SDR
    {2, 5000},     // DDR
    {4, 10000},    // QDR
    {8, 10000},    // FDR10
    {16, 14000},   // FDR
    {32, 25000},   // EDR
    {64, 50000},   // HDR
    {128, 100000}  // NDR
};

// active_width: lanes. PortInfo:LinkWidthActive.
constexpr CodeValue kLaneCounts[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

int find_or_zero(std::span<const CodeValue> table, unsigned code) {
  for (const CodeValue& entry : table) {
    if (entry.code == code) return entry.value;
  }
  return 0;
}

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

int link_speed_mbps(unsigned active_speed, unsigned active_width) {
  return find_or_zero(kLaneSpeeds, active_speed) * find_or_zero(kLaneCounts, active_width);
}

Result<PortState> query_port_state(const verbs::Api& api, ibv_context* context, int port) {
  ibv_port_attr attr{};
  if (int err = api.query_port(context, port, &attr); err != 0) {
    return fail_errno(Code::kSystem, "querying port " + where(context, port) + " failed", err);
  }
  PortState state;
  state.active = attr.state == IBV_PORT_ACTIVE;
  state.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
  state.grh_required = (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
  state.max_message_bytes = attr.max_msg_sz != 0 ? attr.max_msg_sz : kDefaultMessageBytes;
  state.lid = attr.lid;
  state.mtu = attr.active_mtu;
  state.speed_mbps = link_speed_mbps(attr.active_speed, attr.active_width);
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
