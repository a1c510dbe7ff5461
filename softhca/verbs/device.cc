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

struct LinkSpeed {
  uint32_t gbps;
  uint8_t width;  // the encoding of ibv_port_attr: 1 = 1x, 2 = 4x, 4 = 8x
  uint8_t speed;  // 2 DDR, 4 QDR, 16 FDR, 32 EDR, 64 HDR, 128 NDR
};

constexpr LinkSpeed kSpeeds[] = {{10, 1, 4},   {25, 1, 32},  {40, 2, 4},    {56, 2, 16},
                                 {100, 2, 32}, {200, 2, 64}, {400, 2, 128}, {800, 4, 128}};

// Returns the highest speed that the encoding can express and that is not above `gbps`.
LinkSpeed encode_speed(uint32_t gbps) {
  LinkSpeed best = kSpeeds[0];
  for (const LinkSpeed& speed : kSpeeds) {
    if (speed.gbps <= gbps) best = speed;
  }
  return best;
}

ibv_mtu encode_mtu(uint32_t bytes) { return static_cast<ibv_mtu>(std::bit_width(bytes) - 8); }

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
    verbs.node_type = IBV_NODE_CA;
    verbs.transport_type = IBV_TRANSPORT_IB;
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
  attr->vendor_id = 0x1af4;
  attr->vendor_part_id = 0x10f7;
  attr->hw_ver = 1;
  attr->max_qp = static_cast<int>(config.max_qp);
  attr->max_qp_wr = static_cast<int>(config.max_qp_wr);
  attr->device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                           IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD |
                           IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attr->max_sge = attr->max_sge_rd = kMaxSge;
  attr->max_cq = kMaxCqs - 1;
  attr->max_cqe = 1 << 20;
  attr->max_mr = attr->max_mw = kMaxMrs - 1;  // together
  attr->max_pd = 1 << 16;
  attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 16;
  attr->max_res_rd_atom = attr->max_qp * 16;
  attr->atomic_cap = IBV_ATOMIC_HCA;
  attr->max_pkeys = 1;
  attr->local_ca_ack_delay = 1;
  attr->phys_port_cnt = static_cast<uint8_t>(config.ports);
}

int query_port(const Device& device, uint32_t number, ibv_port_attr* attr, size_t bytes) {
  const DeviceConfig& config = *device.config;
  if (number == 0 || number > config.ports) return EINVAL;
  const SharedPort& port = device.process->port(device.index, number);
  LinkSpeed speed = encode_speed(config.speed_gbps);
  ibv_port_attr full = {};
  full.state = static_cast<ibv_port_state>(port.state.load());
  full.max_mtu = full.active_mtu = encode_mtu(config.mtu);
  full.gid_tbl_len = port.gid_count;
  full.port_cap_flags = config.ethernet ? IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS
                                        : IBV_PORT_EXTENDED_SPEEDS_SUP | IBV_PORT_CM_SUP;
  full.max_msg_sz = 1u << 30;
  full.pkey_tbl_len = 1;
  full.lid = port.lid;
  full.sm_lid = config.ethernet ? 0 : 1;
  full.max_vl_num = 4;
  full.subnet_timeout = 18;
  full.active_width = speed.width;
  full.active_speed = speed.speed;
  full.phys_state = full.state == IBV_PORT_ACTIVE ? 5 : 3;
  full.link_layer = port.link_layer;
  // A caller that was built against a newer rdma-core has fields that are unknown here: they read
  // zero.
  memset(attr, 0, bytes);
  memcpy(attr, &full, std::min(bytes, sizeof full));
  return 0;
}

}  // namespace softhca
