// The single elements of NCCL's topology files; nccl_xml.cc puts them together. Attributes that are
// missing or malformed count as unknown, as far as NCCL does not need them.
#pragma once

#include <cstdint>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/xml_file.h"

namespace gdr::topology {

// Parses a decimal number, or a hexadecimal one with 0x. Returns nothing for other text, for
// negative numbers and for numbers that are too large.
std::optional<uint64_t> xml_number(const std::string& text);

// Returns an attribute, or `fallback` where it is missing or is not a number from 0 to 0x7fffffff.
int xml_int(const pugi::xml_node& node, const char* attribute, int fallback = 0);

bool is_named(const pugi::xml_node& node, const char* name);

// Returns `class` of a <pci>; 0 where unknown.
uint32_t class_of(const pugi::xml_node& pci);
PciIds ids_of(const pugi::xml_node& pci);
// A link_speed that NCCL does not know in its spelling counts as 8 GT/s (kvDictPciGen in topo.cc).
PciLink link_of(const pugi::xml_node& pci);
std::string odd_speed(const pugi::xml_node& pci);  // that speed; "" for others

// Returns the GPU of a <pci>, or its partitions where its <gpu> elements have the attribute
// `mlopart`: two <gpu> of the same partition (of two ranks) are one. Does not set `at`. Fails where
// an NVLink has no target that NCCL could use.
Result<std::vector<Gpu>> gpus_of(const XmlFile& xml, const pugi::xml_node& pci);

// The verbs port of a <net>, which is what NCCL_IB_HCA and rail maps name.
struct NetName {
  std::string hca;           // "" where the element has no name
  bool data_direct = false;  // NCCL shows the Data Direct function of mlx5_0 as "mlx5_0_dma"
  int port = 1;
};

// Takes apart the name of a <net> or of a part of a merged one: "mlx5_0_dma", or "mlx5_0:2", as the
// plugin names a second port. `port` is 0 where the name has none.
NetName net_name(std::string name);

// Returns the verbs port of a <net>. NCCL and the plugin count the ports of a card on, over all its
// functions (ncclIbGetRealPort in NCCL's src/transport/net_ib, net_devices.cc in the plugin), so
// that port 1 of a card's second function is `port="2"`; `nets` are all <net> of the file.
NetName net_name_of(const pugi::xml_node& net, const std::vector<pugi::xml_node>& nets);

// Returns the port that a <net> describes, but for its number.
Port port_of(const pugi::xml_node& net);

// Returns whether a <net> is a device for point-to-point traffic. NCCL 2.28 and later also list
// devices that only one-sided (GIN, RMA) or collective transports use, with net="0".
bool is_network(const pugi::xml_node& net);

// Returns the HCAs whose ports a virtual NIC of NCCL is made of: "mlx5_0" and "mlx5_1" for
// "mlx5_0_dma+mlx5_1:2". Returns nothing for a <net> of one port.
std::vector<std::string> merged_hcas(const pugi::xml_node& net);

}  // namespace gdr::topology
