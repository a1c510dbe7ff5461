#include "softhca/verbs/device.h"

#include <endian.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softhca/fabric/process.h"

namespace softhca {

namespace {

// ibv_port_attr as it was before rdma-core added active_speed_ex at its end, with its padding.
constexpr size_t kPortAttrBytes = 52;  // up to port_cap_flags2, with the padding
static_assert(offsetof(ibv_port_attr, port_cap_flags2) + sizeof(uint16_t) <= kPortAttrBytes);

ibv_mtu encode_mtu(uint32_t bytes) { return static_cast<ibv_mtu>(std::bit_width(bytes) - 8); }

ibv_node_type node_type(Transport transport) {
  switch (transport) {
    case Transport::kIwarp:
      return IBV_NODE_RNIC;
    case Transport::kUnspecified:
      return IBV_NODE_UNSPECIFIED;
    case Transport::kInfiniBand:
      break;
  }
  return IBV_NODE_CA;
}

ibv_transport_type transport_type(Transport transport) {
  switch (transport) {
    case Transport::kIwarp:
      return IBV_TRANSPORT_IWARP;
    case Transport::kUnspecified:
      return IBV_TRANSPORT_UNSPECIFIED;
    case Transport::kInfiniBand:
      break;
  }
  return IBV_TRANSPORT_IB;
}

// enum ibv_port_cap_flags2 (verbs.h of rdma-core 62 has all of them).
constexpr uint16_t kHas2x = 1 << 4;
constexpr uint16_t kHasHdr = 1 << 5;
constexpr uint16_t kHasNdr = 1 << 10;
constexpr uint16_t kHasXdr = 1 << 12;

uint16_t capabilities2(LinkSpeed link) {
  uint16_t flags = link.width == 16 ? kHas2x : 0;
  if (link.speed >= 64) flags |= kHasHdr;
  if (link.speed >= kNdr) flags |= kHasNdr;
  if (link.speed > kNdr) flags |= kHasXdr;
  return flags;
}

uint32_t capabilities(const PortConfig& port) {
  if (port.ethernet()) return IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  return IBV_PORT_EXTENDED_SPEEDS_SUP | IBV_PORT_CAP_MASK2_SUP | IBV_PORT_CM_SUP;
}

// Fields that stay as they are while the process runs.
ibv_port_attr describe_port(const PortConfig& config) {
  ibv_port_attr attr = {};
  LinkSpeed link = config.link();
  attr.max_mtu = attr.active_mtu = encode_mtu(config.mtu);
  attr.port_cap_flags = capabilities(config);
  attr.port_cap_flags2 = config.ethernet() ? 0 : capabilities2(link);
  attr.max_msg_sz = config.max_msg_sz;
  attr.pkey_tbl_len = 1;
  attr.sm_lid = config.ethernet() ? 0 : 1;
  attr.max_vl_num = 4;
  attr.subnet_timeout = 18;
  attr.active_width = link.width;
  // The kernel's ABI for this field ends at NDR (copy_port_attr_to_resp() of Linux).
  attr.active_speed = static_cast<uint8_t>(std::min(link.speed, kNdr));
  attr.link_layer = config.link_layer;
  attr.flags = config.grh == GrhRule::kOptional ? 0 : IBV_QPF_GRH_REQUIRED;
  return attr;
}

}  // namespace

std::vector<Device*> make_devices(Process& process, Runtime& runtime) {
  std::vector<Device*> list;
  for (uint32_t i = 0; i < process.config().devices.size(); ++i) {
    auto* device = new Device{};
    device->index = i;
    device->config = &process.config().devices[i];
    device->process = &process;
    device->runtime = &runtime;
    ibv_device& verbs = device->verbs;
    verbs.node_type = node_type(device->config->transport);
    verbs.transport_type = transport_type(device->config->transport);
    std::string path = process.folder() + "/sys/class/infiniband/" + device->config->name;
    snprintf(verbs.name, sizeof verbs.name, "%s", device->config->name.c_str());
    snprintf(verbs.dev_name, sizeof verbs.dev_name, "softverbs%u", i);
    snprintf(verbs.dev_path, sizeof verbs.dev_path, "%s", path.c_str());
    snprintf(verbs.ibdev_path, sizeof verbs.ibdev_path, "%s", path.c_str());
    list.push_back(device);
  }
  return list;
}

void query_device(const Device& device, ibv_device_attr* attr) {
  const DeviceConfig& config = *device.config;
  *attr = {};
  snprintf(attr->fw_ver, sizeof attr->fw_ver, "1.0.0");
  attr->node_guid = attr->sys_image_guid = htobe64(config.guid);
  attr->max_mr_size = 1ull << 46;
  attr->page_size_cap = 0xfffffffffffff000;
  attr->vendor_id = config.vendor_id;
  attr->vendor_part_id = 0x10f7;
  attr->hw_ver = 1;
  attr->max_qp = static_cast<int>(config.max_qp);
  attr->max_qp_wr = static_cast<int>(config.max_qp_wr);
  attr->device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                           IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD;
  attr->max_sge = attr->max_sge_rd = kMaxSge;
  attr->max_cq = kMaxCqs;
  attr->max_cqe = 1 << 20;
  attr->max_mr = kMaxMrs;
  attr->max_pd = 1 << 16;
  attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = kMaxReads;
  attr->max_res_rd_atom = attr->max_qp * static_cast<int>(kMaxReads);
  attr->atomic_cap = IBV_ATOMIC_HCA;
  attr->max_pkeys = 1;
  attr->local_ca_ack_delay = 1;
  attr->phys_port_cnt = static_cast<uint8_t>(config.ports);
}

int query_port(const Device& device, uint32_t number, ibv_port_attr* attr, size_t bytes) {
  const DeviceConfig& config = *device.config;
  if (int error = device.error(); error != 0) return error;
  if (number == 0 || number > config.ports) return EINVAL;
  const SharedPort& port = device.process->port(device.index, number);
  ibv_port_attr full = describe_port(config.port(number));
  full.state = static_cast<ibv_port_state>(port.state.load());
  full.gid_tbl_len = static_cast<int>(port.gid_count);
  full.lid = port.lid.load();
  full.phys_state = full.state == IBV_PORT_ACTIVE ? 5 : 2;  // LinkUp, Polling
  // A caller that was built against a newer rdma-core has fields that are unknown here: they read
  // zero.
  memset(attr, 0, bytes);
  memcpy(attr, &full, std::min(bytes, kPortAttrBytes));
  const uint32_t active_speed_ex = config.port(number).link().speed;
  if (config.port(number).active_speed_ex && bytes >= kPortAttrBytes + sizeof active_speed_ex) {
    memcpy(reinterpret_cast<uint8_t*>(attr) + kPortAttrBytes, &active_speed_ex,
           sizeof active_speed_ex);
  }
  return 0;
}

}  // namespace softhca
