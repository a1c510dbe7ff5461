#include "topology/sources/nccl_xml_elements.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "topology/sources/nvlinks.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

constexpr uint32_t kNvSwitchClass = 0x068000;
// What a link_speed that NCCL knows begins with: the kernel before 5.7 wrote the short ones.
constexpr std::string_view kLinkSpeeds[] = {
    "2.5 GT/s",      "5 GT/s",        "8 GT/s",         "16 GT/s",        "32 GT/s",
    "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"};
constexpr uint32_t kPowerBridgeClass = 0x068001;  // the CPU's end of an NVLink

uint16_t id_of(const pugi::xml_node& node, const char* attribute) {
  int value = xml_int(node, attribute);
  return static_cast<uint16_t>(value <= 0xffff ? value : 0);
}

// Returns whether the file has a GPU at the address that a link leads to.
bool leads_to_gpu(const XmlFile& xml, const pugi::xml_node& link) {
  auto target = Bdf::parse(link.attribute("target").value());
  return target && xml.document().find_node([&](const pugi::xml_node& node) {
    return is_named(node, "pci") && Bdf::parse(node.attribute("busid").value()) == target &&
           (node.child("gpu") || class_of(node) >> 16 == 0x03);
  });
}

// Returns the class of a link's target. Where the file lacks it, NCCL asks the system, and takes a
// target that the system does not show for an NVSwitch, as a virtual machine does not see these.
uint32_t target_class(const XmlFile& xml, const pugi::xml_node& link) {
  if (!link.attribute("tclass")) return leads_to_gpu(xml, link) ? 0 : kNvSwitchClass;
  auto value = xml_number(link.attribute("tclass").value());
  return value && *value <= 0xffffff ? static_cast<uint32_t>(*value) : 0;
}

Status add_link(const XmlFile& xml, const pugi::xml_node& link, Gpu* gpu) {
  uint32_t target = target_class(xml, link);
  NvLink added;
  added.count = std::max(1, xml_int(link, "count"));
  if (target == kPowerBridgeClass) {
    added.to = NvLink::To::kCpu;
  } else if (target >> 8 != kNvSwitchClass >> 8) {
    added.to = NvLink::To::kGpu;
    added.gpu = Bdf::parse(link.attribute("target").value());
    if (!added.gpu) {
      return xml.error_at(link, std::string("<") + link.name() + "> has target \"" +
                                    link.attribute("target").value() +
                                    "\", which is not a PCI address");
    }
  }
  add_nvlink(gpu, added);
  return {};
}

Status read_gpu(const XmlFile& xml, const pugi::xml_node& element, Gpu* gpu) {
  gpu->dev = xml_int(element, "dev", -1);
  gpu->partition = xml_int(element, "mlopart", -1);
  // RCCL, which also writes `gcn`, has the number of compute units in `sm`.
  if (!element.attribute("gcn")) gpu->compute_capability = xml_int(element, "sm");
  if (element.attribute("gdr")) gpu->gpudirect = xml_int(element, "gdr") != 0;
  for (const pugi::xml_node& child : element.children()) {
    if (is_named(child, "c2c")) {
      const int links = std::max(1, xml_int(child, "count"));
      gpu->c2c_links = links > INT_MAX - gpu->c2c_links ? INT_MAX : gpu->c2c_links + links;
      gpu->c2c_mb_per_s = xml_int(child, "bw");
    }
    if (!is_named(child, "nvlink") && !is_named(child, "xgmi")) continue;
    if (Status status = add_link(xml, child, gpu); !status) return status;
  }
  return {};
}

}  // namespace

std::optional<uint64_t> xml_number(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789abcdefABCDEFxX") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  errno = 0;
  bool hex = text.compare(0, 2, "0x") == 0 || text.compare(0, 2, "0X") == 0;
  unsigned long long value = std::strtoull(text.c_str(), &end, hex ? 16 : 10);
  if (errno != 0 || *end != '\0') return std::nullopt;
  return value;
}

int xml_int(const pugi::xml_node& node, const char* attribute, int fallback) {
  auto value = xml_number(node.attribute(attribute).value());
  return value && *value <= 0x7fffffff ? static_cast<int>(*value) : fallback;
}

bool is_named(const pugi::xml_node& node, const char* name) {
  return std::strcmp(node.name(), name) == 0;
}

uint32_t class_of(const pugi::xml_node& pci) {
  auto value = static_cast<uint32_t>(xml_int(pci, "class"));
  return value <= 0xffffff ? value : 0;
}

PciIds ids_of(const pugi::xml_node& pci) {
  return PciIds{id_of(pci, "vendor"), id_of(pci, "device"), id_of(pci, "subsystem_vendor"),
                id_of(pci, "subsystem_device")};
}

std::string odd_speed(const pugi::xml_node& pci) {
  std::string text = pci.attribute("link_speed").value();
  const bool is_known =
      std::any_of(std::begin(kLinkSpeeds), std::end(kLinkSpeeds),
                  [&](std::string_view known) { return text.starts_with(known); });
  return is_known || gt_per_s(text) <= 0 ? "" : text;
}

PciLink link_of(const pugi::xml_node& pci) {
  const bool is_odd = !odd_speed(pci).empty();
  const double speed = is_odd ? 8 : gt_per_s(pci.attribute("link_speed").value());
  int width = xml_int(pci, "link_width");
  // NCCL assumes what is missing of the two, so what is there counts.
  return PciLink{speed, width > 0 && width <= 255 ? width : 0, is_odd};
}

Result<std::vector<Gpu>> gpus_of(const XmlFile& xml, const pugi::xml_node& pci) {
  Gpu common;
  common.bdf = Bdf::parse(pci.attribute("busid").value()).value_or(Bdf{});
  common.class_code = class_of(pci);
  common.ids = ids_of(pci);
  common.link = link_of(pci);
  std::vector<Gpu> gpus;
  for (const pugi::xml_node& element : pci.children("gpu")) {
    Gpu gpu = common;
    if (Status status = read_gpu(xml, element, &gpu); !status) return forward_error(status);
    bool known = std::any_of(gpus.begin(), gpus.end(),
                             [&](const Gpu& one) { return one.partition == gpu.partition; });
    if (!known) gpus.push_back(std::move(gpu));
  }
  if (gpus.empty()) gpus.push_back(std::move(common));
  return gpus;
}

NetName net_name(std::string name) {
  constexpr std::string_view kDataDirect = "_dma";
  NetName found;
  const size_t colon = name.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : xml_number(name.substr(colon + 1));
  found.port = port && *port <= 255 ? static_cast<int>(*port) : 0;
  if (found.port > 0) name.resize(colon);
  found.data_direct = name.size() > kDataDirect.size() && name.ends_with(kDataDirect);
  if (found.data_direct) name.resize(name.size() - kDataDirect.size());
  found.hca = std::move(name);
  return found;
}

NetName net_name_of(const pugi::xml_node& net, const std::vector<pugi::xml_node>& nets) {
  NetName own = net_name(net.attribute("name").value());
  if (own.port > 0) return own;
  own.port = std::max(1, xml_int(net, "port"));
  const auto guid = xml_number(net.attribute("guid").value());
  int on_function = 0;            // preceding <net> of this PCI function: NCCL
  std::set<std::string> on_card;  // preceding HCAs of this GUID: the plugin
  for (const pugi::xml_node& other : nets) {
    const bool precedes = xml_int(other, "dev", -1) < xml_int(net, "dev", -1);
    if (!precedes || std::strchr(other.attribute("name").value(), '+') != nullptr) continue;
    if (other.parent().parent() == net.parent().parent()) ++on_function;
    const std::string hca = net_name(other.attribute("name").value()).hca;
    const bool same_card =
        guid.value_or(0) != 0 && xml_number(other.attribute("guid").value()) == guid;
    if (same_card && hca != own.hca) on_card.insert(hca);
  }
  const int before = on_function > 0 ? on_function : static_cast<int>(on_card.size());
  if (own.port > before) own.port -= before;  // else the file is not of NCCL
  return own;
}

Port port_of(const pugi::xml_node& net) {
  Port port;
  port.speed_mbps = xml_int(net, "speed");
  port.dev = xml_int(net, "dev", -1);
  return port;
}

bool is_network(const pugi::xml_node& net) { return xml_int(net, "net", 1) != 0; }

std::vector<std::string> merged_hcas(const pugi::xml_node& net) {
  std::string name = net.attribute("name").value();
  std::vector<std::string> parts;
  for (size_t from = 0, end = 0; name.find('+') != std::string::npos && end != std::string::npos;
       from = end + 1) {
    end = name.find('+', from);
    parts.push_back(net_name(name.substr(from, end - from)).hca);
  }
  return parts;
}

}  // namespace gdr::topology
