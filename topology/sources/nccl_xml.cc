#include "topology/sources/nccl_xml.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "topology/builder.h"
#include "topology/sources/nccl_parser.h"
#include "topology/sources/nccl_xml_elements.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/xml_file.h"

namespace gdr::topology {
namespace {

constexpr size_t kMostNets = 1024;  // that are compared with each other; NCCL reads 255 elements
constexpr char kTextName[] = "NCCL XML";  // of a text that comes from no file

// Returns the number that NCCL compares, which is 0 where a <cpu> has no host_hash.
uint64_t host_of(const pugi::xml_node& cpu) {
  return std::strtoull(cpu.attribute("host_hash").value(), nullptr, 16);
}

// Returns the host of each <cpu>, without repetition, in the order of the file.
std::vector<uint64_t> hosts_of(const pugi::xml_node& system) {
  std::vector<uint64_t> hosts;
  for (const pugi::xml_node& cpu : system.children("cpu")) {
    uint64_t host = host_of(cpu);
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

bool contains(const std::vector<Bdf>& all, const Bdf& bdf) {
  return std::find(all.begin(), all.end(), bdf) != all.end();
}

bool is_class(uint32_t class_code, uint32_t base) { return class_code >> 16 == base; }

// Whether a <gpu> without a link has none. NCCL asks NVML about it (ncclTopoGetXmlFromGpu in its
// src/graph/xml.cc), so a file by hand need not have any. One that NCCL wrote has all, and since
// 2.21 the host_hash of each <cpu>.
bool states_gpu_links(const pugi::xml_node& system) {
  return static_cast<bool>(system.find_node([](const pugi::xml_node& node) {
    return is_named(node, "nvlink") || is_named(node, "xgmi") || is_named(node, "c2c") ||
           node.attribute("host_hash");
  }));
}

// Copies one host of a file into a Machine. Its functions fail with an error that names the line.
class NcclXmlReader {
 public:
  NcclXmlReader(const XmlFile& xml, const Selection& selection)
      : xml_(xml), selection_(selection) {}

  Result<Machine> read(const pugi::xml_node& system, uint64_t host);

 private:
  Status read_cpu(const pugi::xml_node& cpu);
  Status read_children(const pugi::xml_node& node, const Attachment& at);
  Status read_pci(const pugi::xml_node& pci, const Attachment& at);
  Status read_gpus(const pugi::xml_node& pci, const Attachment& at);
  Status read_nets(const pugi::xml_node& nic, const Attachment& at);
  Status read_net(const pugi::xml_node& net, Hca hca);
  bool precede_by_data_direct(const Hca& hca);
  void note(const pugi::xml_node& node, std::string text, std::string fix) {
    if (diagnostics_.size() >= kMostNcclDiagnostics) return;
    diagnostics_.push_back({false, xml_.line_of(node), std::move(text), std::move(fix)});
  }
  void diagnose(const pugi::xml_node& pci, const Bdf& bdf, bool is_looked_up);
  void add_nic(const pugi::xml_node& pci, const Attachment& at);
  void drop_merged_nics();
  void add_findings();
  bool is_gpu(const pugi::xml_node& pci, const Bdf& bdf, uint32_t class_code) const;
  bool is_nic(const pugi::xml_node& pci, const Bdf& bdf, uint32_t class_code) const;
  bool is_switch(const pugi::xml_node& pci, uint32_t class_code) const;
  Attachment add_switch(const pugi::xml_node& pci, const Bdf& bdf, const Attachment& at);
  // Returns `at` for the next device of the file; see Attachment::order.
  Attachment next(Attachment at) {
    at.order = order_++;
    return at;
  }

  const XmlFile& xml_;
  const Selection& selection_;
  bool has_gpus_ = false;  // whether the file has <gpu> elements
  bool has_nets_ = false;  // whether the file has <net> elements
  int order_ = 0;
  std::set<Bdf> seen_;  // functions of GPUs and HCAs
  std::vector<pugi::xml_node> nets_;
  std::vector<NcclDiagnostic> diagnostics_;
  // The virtual NICs among the HCAs, by name, with the HCAs that they are made of.
  std::map<std::string, std::vector<std::string>> merged_;
  Machine machine_;
};

bool NcclXmlReader::is_gpu(const pugi::xml_node& pci, const Bdf& bdf, uint32_t class_code) const {
  if (contains(selection_.known_gpus, bdf)) return true;
  if (has_gpus_) return static_cast<bool>(pci.child("gpu"));
  bool gpu_class = is_class(class_code, 0x03) || is_class(class_code, 0x12);
  uint16_t vendor = ids_of(pci).vendor;
  // The files of some clouds have no vendor attribute.
  return gpu_class && (vendor == 0 || selection_.is_gpu(class_code, vendor));
}

bool NcclXmlReader::is_nic(const pugi::xml_node& pci, const Bdf& bdf, uint32_t class_code) const {
  if (contains(selection_.known_nics, bdf)) return true;
  return has_nets_ ? static_cast<bool>(pci.child("nic").child("net")) : is_class(class_code, 0x02);
}

// A function that is neither GPU nor NIC in this file, such as a NIC that NCCL did not use, has no
// function below it and is not a bridge.
bool NcclXmlReader::is_switch(const pugi::xml_node& pci, uint32_t class_code) const {
  return pci.child("pci") || (class_code >> 8) == 0x0604;
}

Attachment NcclXmlReader::add_switch(const pugi::xml_node& pci, const Bdf& bdf,
                                     const Attachment& at) {
  Switch added{bdf, next(at), class_of(pci), ids_of(pci), link_of(pci)};
  for (const pugi::xml_node& link : pci.children("pcilink")) {
    // NCCL ignores a link to a switch that it does not find.
    if (auto peer = Bdf::parse(link.attribute("target").value())) added.peers.push_back(*peer);
  }
  machine_.switches.push_back(std::move(added));
  return Attachment{static_cast<int>(machine_.switches.size()) - 1, at.numa, at.host_bridge};
}

Status NcclXmlReader::read_gpus(const pugi::xml_node& pci, const Attachment& at) {
  Result<std::vector<Gpu>> gpus = gpus_of(xml_, pci);
  if (!gpus) return forward_error(gpus);
  for (Gpu& gpu : *gpus) {
    gpu.at = next(at);
    machine_.gpus.push_back(std::move(gpu));
  }
  return {};
}

// With NCCL_IB_DATA_DIRECT=2, NCCL lists an HCA at both of its functions. The plugin uses the Data
// Direct one. Returns whether it is listed already; drops the other.
bool NcclXmlReader::precede_by_data_direct(const Hca& hca) {
  auto other = std::find_if(machine_.hcas.begin(), machine_.hcas.end(), [&](const Hca& one) {
    return one.name == hca.name && one.data_direct != hca.data_direct;
  });
  if (other == machine_.hcas.end()) return false;
  if (other->data_direct) return true;
  machine_.hcas.erase(other);
  return false;
}

// `hca` has the values that all <net> of a function share.
Status NcclXmlReader::read_net(const pugi::xml_node& net, Hca hca) {
  const NetName name = net_name_of(net, nets_);
  Port port = port_of(net);
  port.number = name.port;
  hca.at = next(hca.at);
  port.order = hca.at.order;
  hca.named = !name.hca.empty();
  hca.name = hca.named ? name.hca : "net" + std::to_string(machine_.hcas.size());
  hca.data_direct = name.data_direct;
  hca.guid = xml_number(net.attribute("guid").value()).value_or(0);
  if (net.attribute("gdr")) hca.gpudirect = xml_int(net, "gdr") != 0;
  if (auto parts = merged_hcas(net); !parts.empty()) {
    hca.name = net.attribute("name").value();
    hca.named = hca.data_direct = false;
    port.number = 1;
    merged_.emplace(hca.name, std::move(parts));
  }
  if (precede_by_data_direct(hca)) return {};
  auto known = std::find_if(machine_.hcas.begin(), machine_.hcas.end(),
                            [&](const Hca& one) { return one.name == hca.name; });
  if (known == machine_.hcas.end()) {
    hca.ports = {port};
    machine_.hcas.push_back(std::move(hca));
    return {};
  }
  auto is_listed = [&](const Port& one) { return one.number == port.number; };
  const std::vector<Port>& ports = known->ports;
  // A file by hand may count the ports of an HCA as verbs does.
  if (std::any_of(ports.begin(), ports.end(), is_listed)) {
    port.number = std::max(1, xml_int(net, "port"));
  }
  if (std::any_of(ports.begin(), ports.end(), is_listed) || known->bdf != hca.bdf) {
    return xml_.error_at(net, "there is a second <net> with the name " + hca.name + " and port " +
                                  std::to_string(port.number));
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
  hca.class_code = class_of(parent);
  hca.ids = ids_of(parent);
  hca.link = link_of(parent);
  return hca;
}

Status NcclXmlReader::read_nets(const pugi::xml_node& nic, const Attachment& at) {
  const Hca where = hca_at(nic.parent(), at);
  for (const pugi::xml_node& net : nic.children("net")) {
    if (!is_network(net)) continue;
    if (Status status = read_net(net, where); !status) return status;
  }
  return {};
}

// Adds a NIC of a file without <net> elements.
void NcclXmlReader::add_nic(const pugi::xml_node& pci, const Attachment& at) {
  Hca hca = hca_at(pci, next(at));
  hca.name = hca.bdf->to_string();
  hca.named = false;
  hca.ports.emplace_back();
  machine_.hcas.push_back(std::move(hca));
}

// A virtual NIC counts only where the file does not list the ports that it is made of.
void NcclXmlReader::drop_merged_nics() {
  auto is_listed = [&](const std::string& name) {
    return std::any_of(machine_.hcas.begin(), machine_.hcas.end(),
                       [&](const Hca& hca) { return hca.name == name; });
  };
  std::erase_if(machine_.hcas, [&](const Hca& hca) {
    auto parts = merged_.find(hca.name);
    return parts != merged_.end() &&
           std::any_of(parts->second.begin(), parts->second.end(), is_listed);
  });
}

// NCCL looks GPUs and NICs without a <net> up by the text of their address (int64ToBusId in its
// src/misc/utils.cc, xmlFindTagKv): an entry in another spelling is not found.
void NcclXmlReader::diagnose(const pugi::xml_node& pci, const Bdf& bdf, bool is_looked_up) {
  const std::string busid = pci.attribute("busid").value(), right = bdf.to_string();
  if (is_looked_up && busid != right) {
    note(pci, "NCCL does not find " + right + " by busid=\"" + busid + "\", and places it by /sys",
         "write busid=\"" + right + "\"");
  }
  if (const std::string odd = odd_speed(pci); !odd.empty()) {
    char known[32];
    std::snprintf(known, sizeof(known), "%.1f GT/s PCIe", gt_per_s(odd));
    note(pci, "NCCL does not know link_speed=\"" + odd + "\", and takes 8 GT/s",
         std::string("write link_speed=\"") + known + "\", as Linux does");
  }
  if (pci.child("nic") && (pci.child("pci") || pci.child("nic").next_sibling("nic"))) {
    note(pci, "NCCL reads the first <nic> of a <pci> alone, and no <pci> beside it",
         "give each card a <pci> of its own");
  }
  // Ranks that share a GPU, and partitions of it, have an element each.
  std::set<std::pair<std::string, std::string>> gpus;
  std::set<std::string> devs;
  size_t count = 0;
  for (const pugi::xml_node& gpu : pci.children("gpu")) {
    gpus.emplace(gpu.attribute("rank").value(), gpu.attribute("mlopart").value());
    if (!gpu.attribute("mlopart")) devs.insert(gpu.attribute("dev").value());
    ++count;
  }
  if (gpus.size() == count && devs.size() <= 1) return;
  note(pci, "the " + std::to_string(count) + " <gpu> of one <pci> are one GPU to NCCL",
       "give each GPU a <pci> of its own address");
}

Status NcclXmlReader::read_pci(const pugi::xml_node& pci, const Attachment& at) {
  std::string busid = pci.attribute("busid").value();
  auto bdf = Bdf::parse(busid);
  if (busid.empty()) return xml_.error_at(pci, "<pci> has no busid");
  if (!bdf)
    return xml_.error_at(pci, "<pci> has busid \"" + busid + "\", which is not a PCI address");
  uint32_t class_code = class_of(pci);
  bool gpu = is_gpu(pci, *bdf, class_code);
  bool nic = is_nic(pci, *bdf, class_code);
  const bool is_looked_up = gpu || (nic && !pci.child("nic").child("net"));
  diagnose(pci, *bdf, is_looked_up);
  if (is_looked_up && busid != bdf->to_string()) {
    if (selection_.is_live()) return {};
    ++machine_.unclassified;
  }
  if ((gpu || nic) && !seen_.insert(*bdf).second) {
    return xml_.error_at(pci, "there is a second <pci> with busid " + busid);
  }
  if (gpu) {
    if (Status status = read_gpus(pci, at); !status) return status;
  }
  if (nic && !pci.child("nic").child("net")) add_nic(pci, at);
  const bool states_devices = has_gpus_ && has_nets_;
  const bool is_unknown = !gpu && !nic && !pci.attribute("class") && !pci.child("pci");
  if (is_unknown && !states_devices && !selection_.is_live()) ++machine_.unclassified;
  bool passes_on = !gpu && !nic && is_switch(pci, class_code);
  return read_children(pci, passes_on ? add_switch(pci, *bdf, at) : at);
}

// Only files for NVIDIA's NCCL are judged by its rules: AMD's RCCL writes and wants version 2.
void NcclXmlReader::add_findings() {
  const bool is_rccl = std::any_of(machine_.gpus.begin(), machine_.gpus.end(),
                                   [](const Gpu& gpu) { return gpu.ids.vendor == kAmd; });
  if (is_rccl) return;
  std::vector<NcclDiagnostic> diagnostics = nccl_diagnostics(xml_.text());
  diagnostics.insert(diagnostics.begin(), diagnostics_.begin(), diagnostics_.end());
  machine_.findings = nccl_findings(xml_.name(), diagnostics);
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
  if (!cpu.attribute("numaid")) {
    return xml_.error_at(cpu, "<cpu> has no numaid, without which NCCL refuses the file, too");
  }
  std::string text = cpu.attribute("numaid").value();
  auto id = text == "-1" ? std::optional<uint64_t>(0) : xml_number(text);
  if (!id || *id > 0xffff) {
    return xml_.error_at(
        cpu, "<cpu> has numaid \"" + text + "\", which is not the number of a NUMA node");
  }
  int index = numa_index(&machine_, text == "-1" ? -1 : static_cast<int>(*id));
  NumaNode& node = machine_.numa_nodes[index];
  if (node.order < 0) {
    node.order = order_++;
  } else {  // ncclTopoAddCpu in NCCL's src/graph/topo.cc makes a node of each
    note(cpu, "a second <cpu> with numaid " + text + " is another node to NCCL, far from the first",
         "move what it contains into the first");
  }
  if (node.cpus.empty()) node.cpus = cpu.attribute("affinity").value();
  if (machine_.cpu == Cpu{}) {
    machine_.cpu = Cpu{cpu.attribute("arch").value(), cpu.attribute("vendor").value(),
                       xml_int(cpu, "familyid"), xml_int(cpu, "modelid")};
  }
  return read_children(cpu, Attachment{-1, index, -1});
}

Result<Machine> NcclXmlReader::read(const pugi::xml_node& system, uint64_t host) {
  auto named = [](const char* name) {
    return [name](const pugi::xml_node& node) { return is_named(node, name); };
  };
  has_gpus_ = static_cast<bool>(system.find_node(named("gpu")));
  machine_.gpu_links_known = has_gpus_ && states_gpu_links(system);
  for (const pugi::xpath_node& net : system.select_nodes("//nic/net")) {
    nets_.push_back(net.node());
  }
  has_nets_ = !nets_.empty();
  if (nets_.size() > kMostNets) nets_.clear();
  for (const pugi::xml_node& cpu : system.children("cpu")) {
    if (host_of(cpu) != host) continue;
    if (machine_.host.empty()) machine_.host = cpu.attribute("host_hash").value();
    if (Status status = read_cpu(cpu); !status) return forward_error(status);
  }
  drop_merged_nics();
  machine_.nccl_file = true;
  add_findings();
  sort(&machine_);
  return std::move(machine_);
}

// Returns the element with all <cpu>, of which there is at least one.
Result<pugi::xml_node> system_of(const XmlFile& xml) {
  pugi::xml_node system = xml.document().child("system");
  if (!system) {
    bool hwloc = !xml.document().child("topology").empty();
    return fail(Code::kInvalidArgument,
                xml.name() + " has no <system>" + (hwloc ? " but is an hwloc file" : "") +
                    ": expected a NCCL topology file, as NCCL writes it to NCCL_TOPO_DUMP_FILE");
  }
  if (!system.child("cpu")) return xml.error_at(system, "<system> has no <cpu>");
  return system;
}

std::string list_of(const std::vector<uint64_t>& hosts) {
  std::string list;
  for (size_t i = 0; i < hosts.size(); ++i) {
    char text[64];
    std::snprintf(text, sizeof(text), "%s%zu is 0x%llx", i == 0 ? "" : ", ", i,
                  static_cast<unsigned long long>(hosts[i]));
    list += text;
  }
  return list;
}

// Reads host `index` of a file that has `hosts`.
Result<Machine> read_host(const XmlFile& xml, const Selection& selection,
                          const std::vector<uint64_t>& hosts, size_t index) {
  auto machine = NcclXmlReader(xml, selection).read(xml.document().child("system"), hosts[index]);
  if (!machine) return machine;
  machine->hosts = static_cast<int>(hosts.size());
  // NCCL writes such a file for an NVLink domain, and nobody means it for NCCL_TOPO_FILE.
  for (Finding& one : machine->findings) {
    if (hosts.size() > 1) one.severity = Severity::kWarning;
  }
  machine->source = xml.name() == kTextName ? kTextName : "NCCL XML " + xml.name();
  if (hosts.size() > 1) {
    machine->source += ", host " + std::to_string(index) + " (" + machine->host + ") of " +
                       std::to_string(hosts.size());
  }
  return machine;
}

Result<Machine> convert(Result<XmlFile> xml, const Selection& selection) {
  if (!xml) return forward_error(xml);
  auto system = system_of(*xml);
  if (!system) return forward_error(system);
  std::vector<uint64_t> hosts = hosts_of(*system);
  if (selection.host < 0 || static_cast<size_t>(selection.host) >= hosts.size()) {
    return fail(Code::kInvalidArgument, xml->name() + " has no host " +
                                            std::to_string(selection.host) + ": of its " +
                                            std::to_string(hosts.size()) + ", " + list_of(hosts));
  }
  return read_host(*xml, selection, hosts, static_cast<size_t>(selection.host));
}

}  // namespace

Result<Machine> nccl_xml(const std::string& file, const Selection& selection) {
  return convert(XmlFile::read(file), selection);
}

Result<Machine> nccl_xml_text(const std::string& text, const Selection& selection) {
  return convert(XmlFile::parse(text, kTextName), selection);
}

Findings nccl_file_findings(const std::string& file) {
  const Result<std::string> text = XmlFile::text_of(file);
  if (!text) {
    return {{FindingKind::kTopologyFile, Severity::kWarning, "", text.error().text, "correct it"}};
  }
  const Result<Machine> machine = nccl_xml(file);
  if (machine) return machine->findings;
  Findings findings = nccl_findings(file, nccl_diagnostics(*text));
  if (findings.empty() || findings.back().severity != Severity::kError) {
    findings.insert(findings.begin(), {FindingKind::kTopologyFile, Severity::kWarning, "",
                                       machine.error().text, "correct the file"});
  }
  return findings;
}

// Whether there is something else than comments and blanks.
bool has_element(std::string_view text) {
  const auto trim = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(" \r\n"), text.size()));
  };
  trim();
  for (size_t end; text.starts_with("<!--") && (end = text.find("-->", 4)) != text.npos; trim()) {
    text.remove_prefix(end + 3);
  }
  return !text.empty();
}

Result<std::set<int>> gpus_of_graph(const std::string& file) {
  Result<std::string> text = XmlFile::text_of(file);
  if (!text) return forward_error(text);
  // Where the file ends before an element, NCCL has none (xmlGetNode in its src/graph/xml.cc).
  if (!has_element(*text)) return std::set<int>{};
  auto xml = XmlFile::parse(std::move(*text), file);
  if (!xml) return forward_error(xml);
  // Its elements are not those of a topology file, and the syntax is.
  const std::vector<NcclDiagnostic> found = nccl_diagnostics(xml->text());
  if (!found.empty() && found.back().refused) {
    return fail(Code::kInvalidArgument, file + ":" + std::to_string(found.back().line) + ": " +
                                            found.back().text + ". Fix: " + found.back().fix);
  }
  const pugi::xml_node graphs = xml->document().child("graphs");
  if (graphs && xml_int(graphs, "version") != 1) {
    return xml->error_at(graphs, "<graphs> is not of version 1");
  }
  std::set<int> gpus;
  for (const pugi::xpath_node& gpu : xml->document().select_nodes("/graphs/graph/channel/gpu")) {
    // NCCL reads hexadecimal digits from 2.21 on, and no number where there is a rank.
    const char* dev = gpu.node().attribute("dev").value();
    const bool has_rank = !gpu.node().attribute("rank").empty();
    gpus.insert(has_rank ? -1 : static_cast<int>(std::strtol(dev, nullptr, 16)));
  }
  return gpus;
}

Result<std::vector<Machine>> nccl_xml_hosts(const std::string& file, const Selection& selection) {
  auto xml = XmlFile::read(file);
  if (!xml) return forward_error(xml);
  auto system = system_of(*xml);
  if (!system) return forward_error(system);
  std::vector<uint64_t> hosts = hosts_of(*system);
  std::vector<Machine> machines;
  for (size_t i = 0; i < hosts.size(); ++i) {
    auto machine = read_host(*xml, selection, hosts, i);
    if (!machine) return forward_error(machine);
    machines.push_back(std::move(*machine));
  }
  return machines;
}

}  // namespace gdr::topology
