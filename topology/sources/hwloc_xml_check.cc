#include "topology/sources/hwloc_xml_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace gdr::topology {
namespace {

constexpr std::array<std::string_view, 4> kIoTypes = {"Bridge", "PCIDev", "OSDev", "Misc"};
constexpr size_t kMaxBitmapText = 4096;  // characters, enough for 14,000 CPUs

// Returns whether the text is a bitmap: "0x0000ffff,0xffffffff", or "0xf...f,0x00000000" for an
// infinite one; see hwloc_bitmap_sscanf().
bool is_bitmap(std::string_view text) {
  return text.substr(0, 2) == "0x" && text.size() <= kMaxBitmapText &&
         text.find_first_not_of("0123456789abcdefx,.") == std::string_view::npos;
}

bool is_io(const std::string& type) {
  return std::find(kIoTypes.begin(), kIoTypes.end(), type) != kIoTypes.end();
}

// hwloc's built-in XML reader ignores all attributes after one with other characters.
bool has_plain_attributes(const pugi::xml_node& object) {
  constexpr char kPlain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
  for (const pugi::xml_attribute& attribute : object.attributes()) {
    if (attribute.name()[std::strspn(attribute.name(), kPlain)] != '\0') return false;
    std::string_view value = attribute.value();
    bool plain = std::all_of(value.begin(), value.end(),
                             [](char c) { return c >= ' ' && c <= '~' && c != '>'; });
    if (!plain) return false;
  }
  return true;
}

// Checks the enumerations that hwloc copies without checking.
bool has_proper_kind(const std::string& type, const pugi::xml_node& object) {
  std::string_view bridge = object.attribute("bridge_type").value();
  if (type == "Bridge") return bridge == "0-1" || bridge == "1-1";
  std::string_view device = object.attribute("osdev_type").value();
  return type != "OSDev" || (device.size() == 1 && device[0] >= '0' && device[0] <= '7');
}

Status check_object(const XmlFile& xml, const pugi::xml_node& object) {
  std::string type = object.attribute("type").value();
  if (type.empty()) return xml.error_at(object, "<object> has no type");
  if (!has_plain_attributes(object)) {
    return xml.error_at(object,
                        "<object> of type " + type + " has an attribute that hwloc does not know");
  }
  if (!has_proper_kind(type, object)) {
    return xml.error_at(object,
                        "<object> of type " + type + " is of a kind that hwloc 2 does not know");
  }
  if (is_io(type)) return {};
  for (const char* set : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
    if (!is_bitmap(object.attribute(set).value())) {
      return xml.error_at(object, "<object> of type " + type + " has no valid " + set);
    }
  }
  return {};
}

Status check_below(const XmlFile& xml, const pugi::xml_node& node, int* nodes) {
  for (const pugi::xml_node& object : node.children("object")) {
    if (Status status = check_object(xml, object); !status) return status;
    if (std::strcmp(object.attribute("type").value(), "NUMANode") == 0) ++*nodes;
    if (Status status = check_below(xml, object, nodes); !status) return status;
  }
  return {};
}

}  // namespace

Status check_hwloc_xml(const XmlFile& xml, const pugi::xml_node& topology) {
  std::string version = topology.attribute("version").value();
  if (version.compare(0, 2, "2.") != 0) {
    return xml.error_at(topology, "is of hwloc version \"" + version +
                                      "\", but 2 is needed: convert it " +
                                      "with lstopo of hwloc 2 (`lstopo -i OLD NEW.xml`)");
  }
  int nodes = 0;
  if (Status status = check_below(xml, topology, &nodes); !status) return status;
  if (nodes == 0) return xml.error_at(topology, "there is no NUMA node");
  return {};
}

}  // namespace gdr::topology
