// The configuration of one port: its addresses, its link and what it asks of address vectors.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "softhca/model/addresses.h"
#include "softhca/model/json_fields.h"
#include "softhca/model/link_speed.h"

namespace softhca {

// Which GRH the address vectors of a port need (IBV_QPF_GRH_REQUIRED, ibv_query_port(3)).
enum class GrhRule {
  kOptional,
  kRequired,  // packets without one are lost
  kChecked,   // and ibv_modify_qp refuses such an address vector, as rdma_check_ah_attr() of Linux
};

struct PortConfig {
  uint8_t link_layer = IBV_LINK_LAYER_INFINIBAND;
  uint16_t lid = 0;  // 0 on Ethernet
  uint64_t subnet_prefix = 0xfe80000000000000;
  uint16_t flid = 0;        // global LID of a routed subnet; 0: none
  uint16_t router_lid = 0;  // LID of the subnet's router; 0: none
  std::vector<ibv_gid> gids;
  GrhRule grh = GrhRule::kOptional;
  uint32_t mtu = 4096;             // bytes
  uint32_t max_msg_sz = 1u << 30;  // bytes
  // None: that of link_speed and link_width, or 400. 0: unknown, and sysfs says nothing.
  std::optional<uint32_t> speed_gbps;
  std::optional<uint8_t> link_width;
  std::optional<uint16_t> link_speed;
  bool active_speed_ex = true;            // whether ibv_port_attr has that field
  std::optional<double> port_speed_gbps;  // none: ibv_query_port_speed is not supported

  bool ethernet() const { return link_layer == IBV_LINK_LAYER_ETHERNET; }
  // Width and speed as ibv_query_port reports them.
  LinkSpeed link() const;
  // 10^9 bits per second, as sysfs reports them; 0 for a port of which it reports none.
  double gbps() const;
};

// Reads the fields of a port into `port`, which holds the defaults.
void read_port(JsonFields* fields, PortConfig* port);
// Makes port `number`, which counts from 1, from the settings that all ports of a device share: LID
// and addresses are those of port 1, and each further port has the next ones.
PortConfig nth_port(PortConfig shared, uint32_t number);

}  // namespace softhca
