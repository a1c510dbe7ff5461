#include "tools/sources/hwloc_xml.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "topology/bdf.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/xml_file.h"

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

// Returns whether the attribute has the address of a PCI function as hwloc writes it. hwloc takes
// any other text for 0000:00:00.0, so that bridges of several would be one.
bool has_address(const pugi::xml_node& object) {
  std::string_view text = object.attribute("pci_busid").value();
  return std::count(text.begin(), text.end(), ':') == 2 && Bdf::parse(std::string(text));
}

// Returns whether a bridge states its domain and buses: "0000:[16-1b]".
bool has_buses(const pugi::xml_node& bridge) {
  unsigned domain = 0, first = 0, last = 0;
  int end = 0;
  const char* text = bridge.attribute("bridge_pci").value();
  int read = std::sscanf(text, "%8x:[%2x-%2x]%n", &domain, &first, &last, &end);
  return read == 3 && end > 0 && text[end] == '\0';
}

Status check_pci(const XmlFile& xml, const pugi::xml_node& object, const std::string& type) {
  bool bridge = type == "Bridge";
  bool function = type == "PCIDev" || (bridge && object.attribute("bridge_type").value()[0] == '1');
  if (function && !has_address(object)) {
    return xml.error_at(object, "<object> of type " + type + " has pci_busid \"" +
                                    object.attribute("pci_busid").value() +
                                    "\", which is not a PCI address");
  }
  if (bridge && !has_buses(object)) {
    return xml.error_at(object, "<object> of type Bridge has bridge_pci \"" +
                                    std::string(object.attribute("bridge_pci").value()) +
                                    "\", which is not a range of PCI buses");
  }
  return {};
}

bool is_named_numa_node(const pugi::xml_node& node) {
  return std::strcmp(node.attribute("type").value(), "NUMANode") == 0;
}

// Checks the sets of CPUs and nodes.
Status check_sets(const XmlFile& xml, const pugi::xml_node& object, bool needs_nodesets) {
  for (std::string_view set : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
    const pugi::xml_attribute attribute = object.attribute(set.data());
    if (!attribute && !needs_nodesets && set.ends_with("nodeset")) continue;
    if (!is_bitmap(attribute.value())) {
      return xml.error_at(object, std::string("<object> of type ") +
                                      object.attribute("type").value() + " has no valid " +
                                      set.data());
    }
  }
  return {};
}

Status check_object(const XmlFile& xml, const pugi::xml_node& object, bool needs_nodesets) {
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
  return is_io(type) ? check_pci(xml, object, type) : check_sets(xml, object, needs_nodesets);
}

Status check_below(const XmlFile& xml, const pugi::xml_node& node, bool needs_nodesets) {
  for (const pugi::xml_node& object : node.children("object")) {
    if (Status status = check_object(xml, object, needs_nodesets); !status) return status;
    if (Status status = check_below(xml, object, needs_nodesets); !status) return status;
  }
  return {};
}

// Returns the major version of hwloc that wrote the file, which hwloc 1 left out.
Result<int> version_of(const XmlFile& xml, const pugi::xml_node& topology) {
  std::string version = topology.attribute("version").value();
  if (version.empty() || version.starts_with("1.")) return 1;
  if (version.starts_with("2.")) return 2;
  std::string fix = version.starts_with("3.")
                        ? ": write it again with `lstopo --export-xml-flags v2 NEW.xml` of hwloc 3"
                        : ": expected a file that lstopo of hwloc 1 or 2 wrote";
  return xml.error_at(
      topology, "is of hwloc version \"" + version + "\", which libhwloc 2 cannot read" + fix);
}

// Checks what libhwloc assumes of an XML file without checking; hwloc 2.9.0 crashes on files
// without it. Every object needs a known type, and its sets of CPUs and nodes where its type has
// these, and one object has to be a NUMA node; files of hwloc 1, which libhwloc 2 imports, may lack
// NUMA nodes and all sets of them. `topology` is the root element. Fails with
// InvalidArgument; the text names the line.
Status check_hwloc_xml(const XmlFile& xml, const pugi::xml_node& topology) {
  Result<int> version = version_of(xml, topology);
  if (!version) return forward_error(version);
  bool has_nodes = static_cast<bool>(topology.find_node(is_named_numa_node));
  // hwloc 1 wrote no NUMA nodes and no sets of them for a machine that has one node only.
  if (Status status = check_below(xml, topology, has_nodes || *version >= 2); !status) {
    return status;
  }
  if (!has_nodes && *version >= 2) return xml.error_at(topology, "there is no NUMA node");
  return {};
}

// Returns the XML without comments. hwloc's built-in reader silently ends an element at a comment,
// so that all devices after it would be missing.
std::string without_comments(const pugi::xml_node& topology) {
  struct Writer : pugi::xml_writer {
    void write(const void* data, size_t size) override {
      text.append(static_cast<const char*>(data), size);
    }
    std::string text;
  } writer;
  topology.print(writer, "", pugi::format_raw | pugi::format_no_declaration);
  return std::move(writer.text);
}

}  // namespace

Result<Machine> hwloc_xml(const std::string& file, const Selection& selection) {
  auto xml = XmlFile::read(file);
  if (!xml) return forward_error(xml);
  pugi::xml_node root = xml->document().child("topology");
  if (!root) {
    bool nccl = !xml->document().child("system").empty();
    return fail(Code::kInvalidArgument, file + " has no <topology>" +
                                            (nccl ? " but is a NCCL topology file" : "") +
                                            ": expected a file that `lstopo --of xml FILE` wrote");
  }
  if (Status status = check_hwloc_xml(*xml, root); !status) return forward_error(status);
  auto library = HwlocLibrary::load();
  if (!library) return forward_error(library);
  auto topology = load_xml(**library, without_comments(root), file);
  if (!topology) return forward_error(topology);
  Machine machine = machine_of(**library, *topology, selection, std::nullopt);
  machine.source = "hwloc XML " + file;
  return machine;
}

}  // namespace gdr::topology
