#include "tests/unit/tools/prediction/oracle/file_tree.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/unit/tools/prediction/oracle/node_graph.h"

namespace gdr::topology::oracle {
namespace {

void set_if_absent(pugi::xml_node node, const char* attribute, const std::string& value) {
  if (!node.attribute(attribute)) node.append_attribute(attribute) = value.c_str();
}

// Calls visit(element) for all elements below `node`, in document order.
template <class Visit>
void for_each_below(const pugi::xml_node& node, const Visit& visit) {
  for (const pugi::xml_node child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    visit(child);
    for_each_below(child, visit);
  }
}

void keep_first_host(pugi::xml_node system) {
  const std::string host = system.child("cpu").attribute("host_hash").value();
  pugi::xml_node next;
  for (pugi::xml_node cpu = system.child("cpu"); cpu; cpu = next) {
    next = cpu.next_sibling("cpu");
    if (host != cpu.attribute("host_hash").value()) system.remove_child(cpu);
  }
}

void complete_cpu(pugi::xml_node cpu) {
  set_if_absent(cpu, "numaid", "-1");
  set_if_absent(cpu, "arch", "x86_64");
  set_if_absent(cpu, "vendor", "GenuineIntel");
  set_if_absent(cpu, "familyid", "6");
  set_if_absent(cpu, "modelid", "143");
}

void complete_pci(pugi::xml_node pci) {
  const bool gpu = pci.child("gpu");
  const bool nic = pci.child("nic");
  set_if_absent(pci, "class", gpu ? "0x030200" : nic ? "0x020000" : "0x060400");
  set_if_absent(pci, "link_speed", "");
  set_if_absent(pci, "link_width", "");
}

void complete_gpus(pugi::xml_node system) {
  bool any = false;
  for_each_below(system, [&any](const pugi::xml_node& node) { any = any || is(node, "gpu"); });
  std::vector<pugi::xml_node> gpus;
  for_each_below(system, [&](pugi::xml_node node) {
    const std::string pci_class = node.attribute("class").value();
    if (!any && is(node, "pci") && pci_class.rfind("0x03", 0) == 0) node.append_child("gpu");
    if (is(node, "gpu")) gpus.push_back(node);
  });
  std::stable_sort(gpus.begin(), gpus.end(), [](const auto& a, const auto& b) {
    const auto key = [](const pugi::xml_node& gpu) {
      return std::pair(bus_number(gpu.parent().attribute("busid").value()),
                       number_of(gpu, "mlopart", -1));
    };
    return key(a) < key(b);
  });
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const std::string number = std::to_string(rank);
    gpus[rank].remove_attribute("rank");
    set_if_absent(gpus[rank], "rank", number);
    set_if_absent(gpus[rank], "dev", number);
    set_if_absent(gpus[rank], "sm", "80");
    set_if_absent(gpus[rank], "gdr", "1");
  }
}

void complete_nets(pugi::xml_node system) {
  std::vector<pugi::xml_node> nets;
  int next = 0;
  for_each_below(system, [&](pugi::xml_node node) {
    if (!is(node, "net") || number_of(node, "net", 1) == 0) return;
    nets.push_back(node);
    next = std::max(next, number_of(node, "dev", -1) + 1);
  });
  for (pugi::xml_node net : nets) {
    if (!net.attribute("dev")) net.append_attribute("dev") = next++;
    set_if_absent(net, "gdr", "1");
  }
}

// Removes what has neither a GPU nor a used <net>. Returns whether `node` has one.
bool trim(pugi::xml_node node) {
  bool used = is(node, "gpu") || (is(node, "net") && number_of(node, "net", 1) != 0);
  if (used) return true;
  pugi::xml_node next;
  for (pugi::xml_node child = node.first_child(); child; child = next) {
    next = child.next_sibling();
    if (trim(child)) {
      used = true;
    } else if (!is(child, "pcilink")) {
      node.remove_child(child);
    }
  }
  return used;
}

}  // namespace

bool is(const pugi::xml_node& node, const char* name) {
  return std::strcmp(node.name(), name) == 0;
}

int64_t bus_number(const std::string& busid) {
  std::string digits;
  for (const char c : busid) {
    if (c == '.' || c == ':') continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0 || digits.size() == 16) break;
    digits += c;
  }
  return std::strtol(digits.c_str(), nullptr, 16);
}

int number_of(const pugi::xml_node& node, const char* attribute, int otherwise) {
  const pugi::xml_attribute found = node.attribute(attribute);
  return found ? static_cast<int>(std::strtol(found.value(), nullptr, 0)) : otherwise;
}

pugi::xml_document read_file_tree(const std::string& text) {
  pugi::xml_document document;
  if (!document.load_string(text.c_str()) || !document.child("system")) {
    throw Failure("it is no topology file");
  }
  pugi::xml_node system = document.child("system");
  keep_first_host(system);
  complete_gpus(system);
  complete_nets(system);
  for_each_below(system, [](const pugi::xml_node& node) {
    if (is(node, "cpu")) complete_cpu(node);
    if (is(node, "pci")) complete_pci(node);
    if (is(node, "nvlink")) set_if_absent(node, "tclass", "0x068000");
  });
  trim(system);
  return document;
}

}  // namespace gdr::topology::oracle
