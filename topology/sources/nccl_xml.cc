#include "topology/sources/nccl_xml.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "topology/builder.h"
#include "topology/sources/nvlinks.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/xml_file.h"

namespace gdr::topology {
namespace {

// Parses a decimal number, or a hexadecimal one with 0x. Returns nothing for other text and for
// numbers that are too large.
std::optional<uint64_t> number(const std::string& text) {
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

// Returns an attribute, or 0 where it is missing or is not a number up to `max`.
uint32_t number_or_zero(const pugi::xml_node& node, const char* attribute, uint32_t max) {
  auto value = number(node.attribute(attribute).value());
  return value && *value <= max ? static_cast<uint32_t>(*value) : 0;
}

int small_number(const pugi::xml_node& node, const char* attribute) {
  return static_cast<int>(number_or_zero(node, attribute, 0x7fffffff));
}

uint16_t id_of(const pugi::xml_node& node, const char* attribute) {
  return static_cast<uint16_t>(number_or_zero(node, attribute, 0xffff));
}

PciIds ids_of(const pugi::xml_node& pci) {
  return PciIds{id_of(pci, "vendor"), id_of(pci, "device"), id_of(pci, "subsystem_vendor"),
                id_of(pci, "subsystem_device")};
}

PciLink link_of(const pugi::xml_node& pci) {
  double speed = gt_per_s(pci.attribute("link_speed").value());
  int width = small_number(pci, "link_width");
  return speed > 0 && width > 0 && width <= 64 ? PciLink{speed, width} : PciLink{};
}

bool is_named(const pugi::xml_node& node, const char* name) {
  return std::strcmp(node.name(), name) == 0;
}

// Copies one file into a Machine. Its functions fail with an error that names the line.
class NcclXmlReader {
 public:
  NcclXmlReader(const XmlFile& xml, const Selection& selection)
      : xml_(xml), selection_(selection) {}

  Result<Machine> read();

 private:
  Status read_cpu(const pugi::xml_node& cpu);
  Status read_children(const pugi::xml_node& node, const Attachment& at);
  Status read_pci(const pugi::xml_node& pci, const Attachment& at);
  Status read_gpu(const pugi::xml_node& pci, const Bdf& bdf, const Attachment& at);
  Status read_nvlink(const pugi::xml_node& link, Gpu* gpu);
  Status read_nets(const pugi::xml_node& nic, const Attachment& at);
  Status read_net(const pugi::xml_node& net, const Hca& where);
  bool is_gpu(const pugi::xml_node& pci, uint32_t class_code) const;
  bool is_switch(const pugi::xml_node& pci, uint32_t class_code) const;
  Attachment add_switch(const pugi::xml_node& pci, const Bdf& bdf, const Attachment& at);

  const XmlFile& xml_;
  const Selection& selection_;
  bool has_gpus_ = false;  // whether the file has <gpu> elements
  bool has_nets_ = false;  // whether the file has <net> elements
  std::set<Bdf> seen_;     // functions of GPUs and HCAs
  Machine machine_;
};

bool is_class(uint32_t class_code, uint32_t base) { return class_code >> 16 == base; }

bool NcclXmlReader::is_gpu(const pugi::xml_node& pci, uint32_t class_code) const {
  if (has_gpus_) return static_cast<bool>(pci.child("gpu"));
  bool gpu_class = is_class(class_code, 0x03) || is_class(class_code, 0x12);
  // The files of some clouds have no vendor attribute.
  return gpu_class &&
         (id_of(pci, "vendor") == 0 || selection_.is_gpu(class_code, id_of(pci, "vendor")));
}

// A function that is neither GPU nor NIC in this file, such as a NIC that NCCL did not use, has no
// function below it and is not a bridge.
bool NcclXmlReader::is_switch(const pugi::xml_node& pci, uint32_t class_code) const {
  return pci.child("pci") || (class_code >> 8) == 0x0604;
}

Attachment NcclXmlReader::add_switch(const pugi::xml_node& pci, const Bdf& bdf,
                                     const Attachment& at) {
  uint32_t class_code = number_or_zero(pci, "class", 0xffffff);
  machine_.switches.push_back(Switch{bdf, at, class_code, ids_of(pci), link_of(pci)});
  return Attachment{static_cast<int>(machine_.switches.size()) - 1, at.numa, at.host_bridge};
}

Status NcclXmlReader::read_nvlink(const pugi::xml_node& link, Gpu* gpu) {
  uint32_t target_class = number_or_zero(link, "tclass", 0xffffff);
  NvLink added;
  added.count = std::max(1, small_number(link, "count"));
  if (target_class == 0x068001) {
    added.to = NvLink::To::kCpu;
  } else if (target_class >> 8 != 0x0680) {
    added.to = NvLink::To::kGpu;
    added.gpu = Bdf::parse(link.attribute("target").value());
    if (!added.gpu) {
      return xml_.error_at(link, std::string("<") + link.name() + "> has target \"" +
                                     link.attribute("target").value() +
                                     "\", which is not a PCI address");
    }
  }
  add_nvlink(gpu, added);
  return {};
}

Status NcclXmlReader::read_gpu(const pugi::xml_node& pci, const Bdf& bdf, const Attachment& at) {
  Gpu gpu;
  gpu.bdf = bdf;
  gpu.at = at;
  gpu.class_code = number_or_zero(pci, "class", 0xffffff);
  gpu.ids = ids_of(pci);
  gpu.link = link_of(pci);
  pugi::xml_node element = pci.child("gpu");
  // RCCL, which also writes `gcn`, has the number of compute units in `sm`.
  if (!element.attribute("gcn")) gpu.compute_capability = small_number(element, "sm");
  if (element.attribute("gdr")) gpu.gpudirect = small_number(element, "gdr") != 0;
  for (const pugi::xml_node& child : element.children()) {
    if (is_named(child, "c2c")) gpu.c2c_links += std::max(1, small_number(child, "count"));
    if (!is_named(child, "nvlink") && !is_named(child, "xgmi")) continue;
    if (Status status = read_nvlink(child, &gpu); !status) return status;
  }
  machine_.gpus.push_back(std::move(gpu));
  return {};
}

// `where` has the values that all <net> of a function share.
Status NcclXmlReader::read_net(const pugi::xml_node& net, const Hca& where) {
  Port port;
  port.number = std::max(1, small_number(net, "port"));
  port.speed_mbps = small_number(net, "speed");
  Hca hca = where;
  hca.name = net.attribute("name").value();
  if (hca.name.empty()) hca.name = "net" + std::to_string(machine_.hcas.size());
  hca.guid = number(net.attribute("guid").value()).value_or(0);
  auto known = std::find_if(machine_.hcas.begin(), machine_.hcas.end(),
                            [&](const Hca& one) { return one.name == hca.name; });
  if (known == machine_.hcas.end()) {
    hca.ports = {port};
    machine_.hcas.push_back(std::move(hca));
    return {};
  }
  for (const Port& one : known->ports) {
    if (one.number == port.number || known->bdf != hca.bdf) {
      return xml_.error_at(net, "there is a second <net> with the name " + hca.name + " and port " +
                                    std::to_string(port.number));
    }
  }
  known->ports.push_back(port);
  return {};
}

// `parent` is the parent of a <nic>: its PCI function or, for a NIC without one, the <cpu>.
Hca hca_at(const pugi::xml_node& parent, const Attachment& at) {
  Hca hca;
  hca.at = at;
  hca.bdf = Bdf::parse(parent.attribute("busid").value());
  if (!hca.bdf) return hca;
  hca.class_code = number_or_zero(parent, "class", 0xffffff);
  hca.ids = ids_of(parent);
  hca.link = link_of(parent);
  return hca;
}

Status NcclXmlReader::read_nets(const pugi::xml_node& nic, const Attachment& at) {
  const Hca where = hca_at(nic.parent(), at);
  for (const pugi::xml_node& net : nic.children("net")) {
    if (Status status = read_net(net, where); !status) return status;
  }
  return {};
}

Status NcclXmlReader::read_pci(const pugi::xml_node& pci, const Attachment& at) {
  std::string busid = pci.attribute("busid").value();
  auto bdf = Bdf::parse(busid);
  if (busid.empty()) return xml_.error_at(pci, "<pci> has no busid");
  if (!bdf)
    return xml_.error_at(pci, "<pci> has busid \"" + busid + "\", which is not a PCI address");
  uint32_t class_code = number_or_zero(pci, "class", 0xffffff);
  bool gpu = is_gpu(pci, class_code);
  bool nic = has_nets_ ? pci.child("nic").child("net") : is_class(class_code, 0x02);
  if ((gpu || nic) && !seen_.insert(*bdf).second) {
    return xml_.error_at(pci, "there is a second <pci> with busid " + busid);
  }
  if (gpu) {
    if (Status status = read_gpu(pci, *bdf, at); !status) return status;
  }
  if (nic && !has_nets_) {
    Hca hca = hca_at(pci, at);
    hca.name = bdf->to_string();
    hca.ports.emplace_back();
    machine_.hcas.push_back(std::move(hca));
  }
  bool passes_on = !gpu && !nic && is_switch(pci, class_code);
  return read_children(pci, passes_on ? add_switch(pci, *bdf, at) : at);
}

Status NcclXmlReader::read_children(const pugi::xml_node& node, const Attachment& at) {
  for (const pugi::xml_node& child : node.children()) {
    Status status;
    if (is_named(child, "pci")) status = read_pci(child, at);
    if (is_named(child, "nic")) status = read_nets(child, at);
    if (!status) return status;
  }
  return {};
}

Status NcclXmlReader::read_cpu(const pugi::xml_node& cpu) {
  std::string text = cpu.attribute("numaid").value();
  auto id = text == "-1" ? std::optional<uint64_t>(0) : number(text);
  if (!id || *id > 0xffff) {
    return xml_.error_at(
        cpu, "<cpu> has numaid \"" + text + "\", which is not the number of a NUMA node");
  }
  int index = numa_index(&machine_, text == "-1" ? -1 : static_cast<int>(*id));
  std::string& mask = machine_.numa_nodes[index].cpus;
  if (mask.empty()) mask = cpu.attribute("affinity").value();
  if (machine_.cpu == Cpu{}) {
    machine_.cpu = Cpu{cpu.attribute("arch").value(), cpu.attribute("vendor").value(),
                       small_number(cpu, "familyid"), small_number(cpu, "modelid")};
  }
  return read_children(cpu, Attachment{-1, index, -1});
}

Result<Machine> NcclXmlReader::read() {
  pugi::xml_node system = xml_.document().child("system");
  if (!system) {
    bool hwloc = !xml_.document().child("topology").empty();
    return fail(Code::kInvalidArgument,
                xml_.name() + " has no <system>" + (hwloc ? " but is an hwloc file" : "") +
                    ": expected a NCCL topology file, as NCCL writes it to NCCL_TOPO_DUMP_FILE");
  }
  auto named = [](const char* name) {
    return [name](const pugi::xml_node& node) { return is_named(node, name); };
  };
  has_gpus_ = static_cast<bool>(system.find_node(named("gpu")));
  machine_.gpu_links_known = has_gpus_;  // only <pci> with a <gpu> are GPUs then
  has_nets_ = static_cast<bool>(system.find_node(named("net")));
  for (const pugi::xml_node& cpu : system.children("cpu")) {
    if (Status status = read_cpu(cpu); !status) return forward_error(status);
  }
  if (machine_.numa_nodes.empty()) return xml_.error_at(system, "<system> has no <cpu>");
  sort(&machine_);
  return std::move(machine_);
}

Result<Machine> convert(Result<XmlFile> xml, const Selection& selection, std::string source) {
  if (!xml) return forward_error(xml);
  auto machine = NcclXmlReader(*xml, selection).read();
  if (machine) {
    machine->source = std::move(source);
    machine->nccl_file = true;
  }
  return machine;
}

}  // namespace

Result<Machine> nccl_xml(const std::string& file, const Selection& selection) {
  return convert(XmlFile::read(file), selection, "NCCL XML " + file);
}

Result<Machine> nccl_xml_text(const std::string& text, const Selection& selection) {
  return convert(XmlFile::parse(text, "NCCL XML"), selection, "NCCL XML");
}

}  // namespace gdr::topology
