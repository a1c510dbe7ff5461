#include "softhca/model/port_config.h"

#include <arpa/inet.h>

#include <string>

#include "softhca/model/limits.h"

namespace softhca {

namespace {

constexpr const char* kGids = "IPv6 addresses, such as \"::ffff:10.0.0.1\"";

void read_gids(JsonFields* fields, PortConfig* port) {
  std::vector<std::string> texts;
  if (fields->find("gids") == nullptr) return;
  fields->strings("gids", &texts);
  port->gids.clear();
  for (const std::string& text : texts) {
    ibv_gid gid = {};
    if (inet_pton(AF_INET6, text.c_str(), gid.raw) != 1) fields->reject("gids", kGids);
    port->gids.push_back(gid);
  }
  // Each takes two entries on Ethernet, as the link-local one does.
  if (port->gids.size() > kMaxGids / 2 - 1) fields->reject("gids", "at most 7 addresses");
}

void read_subnet(JsonFields* fields, PortConfig* port) {
  fields->integer("lid", 1, kMaxUnicastLid, &port->lid);
  fields->hex("subnet_prefix", &port->subnet_prefix);
  fields->integer("flid", 0, kMaxUnicastLid, &port->flid);
  fields->integer("router_lid", 0, kMaxUnicastLid, &port->router_lid);
  if (port->ethernet() && (port->flid != 0 || port->router_lid != 0)) {
    fields->reject("flid", "a FLID or a router's LID only on InfiniBand");
  }
  if (port->flid != 0 && (port->subnet_prefix >> 16 & 0xffff) != 0) {
    fields->reject("subnet_prefix", "one whose bits 16 to 31 are 0: they hold the FLID");
  }
}

template <class T>
void read_code(JsonFields* fields, const char* name, uint64_t limit,
               std::initializer_list<std::pair<Json, T>> names, const std::string& accepted,
               std::optional<T>* target) {
  const Json* value = fields->find(name);
  if (value != nullptr && value->is_number_unsigned() && *value <= limit) {
    *target = value->get<T>();
    return;
  }
  T code = 0;
  fields->choice<T>(name, names, accepted, &code);
  if (code != 0) *target = code;
}

void read_link(JsonFields* fields, PortConfig* port) {
  if (fields->find("speed_gbps") != nullptr) {
    fields->integer("speed_gbps", 0, 3200, &port->speed_gbps.emplace());
  }
  read_code<uint8_t>(
      fields, "link_width", 255, {{"1x", 1}, {"4x", 2}, {"8x", 4}, {"12x", 8}, {"2x", 16}},
      "\"1x\", \"2x\", \"4x\", \"8x\", \"12x\" or a code from 0 to 255", &port->link_width);
  read_code<uint16_t>(fields, "link_speed", 65535,
                      {{"SDR", 1},
                       {"DDR", 2},
                       {"QDR", 4},
                       {"FDR10", 8},
                       {"FDR", 16},
                       {"EDR", 32},
                       {"HDR", 64},
                       {"NDR", 128},
                       {"XDR", 256}},
                      "SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR or a code from 0 to 65535",
                      &port->link_speed);
  fields->boolean("active_speed_ex", &port->active_speed_ex);
  double gbps = -1;
  fields->number("port_speed_gbps", 0, 1e5, &gbps);
  if (gbps >= 0) port->port_speed_gbps = gbps;
}

}  // namespace

LinkSpeed PortConfig::link() const {
  LinkSpeed link = speed_gbps == 0 ? LinkSpeed{0, 0} : encode_speed(speed_gbps.value_or(400));
  if (link_width)
    link = {*link_width, speed_gbps == 0 ? uint16_t{0} : lane_speed(gbps(), *link_width)};
  if (link_speed) link = {link_width.value_or(2), *link_speed};
  return link;
}

double PortConfig::gbps() const {
  if (speed_gbps) return *speed_gbps;
  double rate = link_speed ? rate_of({link_width.value_or(2), *link_speed}) : 0;
  return rate == 0 ? 400 : rate;
}

void read_port(JsonFields* fields, PortConfig* port) {
  fields->choice<uint8_t>("link_layer",
                          {{"InfiniBand", IBV_LINK_LAYER_INFINIBAND},
                           {"Ethernet", IBV_LINK_LAYER_ETHERNET},
                           {"unspecified", IBV_LINK_LAYER_UNSPECIFIED}},
                          "\"InfiniBand\", \"Ethernet\" or \"unspecified\"", &port->link_layer);
  read_gids(fields, port);
  read_subnet(fields, port);
  fields->choice<GrhRule>(
      "grh_required",
      {{false, GrhRule::kOptional}, {true, GrhRule::kRequired}, {"checked", GrhRule::kChecked}},
      "true, false or \"checked\"", &port->grh);
  fields->choice<uint32_t>("mtu",
                           {{256, 256}, {512, 512}, {1024, 1024}, {2048, 2048}, {4096, 4096}},
                           "256, 512, 1024, 2048 or 4096", &port->mtu);
  fields->integer("max_msg_sz", 1, 1u << 31, &port->max_msg_sz);  // the limit of IBTA 9.3.3.1
  read_link(fields, port);
}

PortConfig nth_port(PortConfig shared, uint32_t number) {
  if (shared.lid != 0) shared.lid = static_cast<uint16_t>(shared.lid + number - 1);
  for (ibv_gid& gid : shared.gids) gid.raw[15] = static_cast<uint8_t>(gid.raw[15] + number - 1);
  return shared;
}

}  // namespace softhca
