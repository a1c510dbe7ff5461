#include "softhca/fabric/route.h"

#include "softhca/fabric/port_gids.h"

namespace softhca {

namespace {

bool accepts(const SharedQp& to, const SharedPort& to_port, const ibv_gid& dgid) {
  return to.global != 0 ? same_gid(dgid, to.sgid) : has_gid(to_port, dgid);
}

bool routed(const SharedQp& from, const SharedPort& from_port, const SharedPort& to_port) {
  if (from.global == 0 || from.hop_limit <= 1 || from.dlid == 0) return false;
  return from.dlid == to_port.flid || from.dlid == from_port.router_lid;
}

}  // namespace

bool packets_arrive(const SharedQp& from, const SharedPort& from_port, const SharedQp& to,
                    const SharedPort& to_port) {
  if (from_port.link_layer != to_port.link_layer) return false;
  if (from.global != 0 && !accepts(to, to_port, from.dgid)) return false;
  // A NIC gives the packets of one RoCE version, Ethertype 0x8915 or UDP port 4791, to the QPs that
  // have a GID of that version (IBTA annex A17).
  if (from_port.link_layer == IBV_LINK_LAYER_ETHERNET) {
    return from.global != 0 && (to.global == 0 || from.gid_type == to.gid_type);
  }
  bool grh_required = from_port.grh_required != 0 || to_port.grh_required != 0;
  if (from.global == 0 && grh_required) return false;
  if (from_port.subnet_prefix == to_port.subnet_prefix) return from.dlid == to_port.lid.load();
  return routed(from, from_port, to_port);
}

}  // namespace softhca
