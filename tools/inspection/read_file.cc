#include "tools/inspection/read_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <pugixml.hpp>
#include <system_error>
#include <utility>

#include "base/environment_swap.h"
#include "base/finding.h"
#include "plugin/config/values.h"
#include "tools/inspection/labels.h"
#include "tools/sources/hwloc_xml.h"
#include "tools/sources/nvidia_smi.h"
#include "topology/live/verbs_ports.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/sysfs.h"

namespace gdr::tools::topo {
namespace {

constexpr size_t kMaxPrologue = 1 << 20;  // bytes that are looked at

// The name of the root element, also where the text ends within it; "" where there is none.
std::string root_element(std::string_view text) {
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size(), pugi::parse_minimal);
  return document.document_element().name();
}

// Returns the position of a host; -1: the text is not a number.
int host_number(const std::string& text) {
  int number = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

// The error about a --host that a file does not have; `hosts` are the names of those that it has,
// "" for one without a name.
std::string wrong_host_text(const std::string& file, const std::string& host,
                            const std::vector<std::string>& hosts) {
  std::string fix = "leave it out: the file describes one host";
  if (hosts.size() > 1) {
    std::string names;
    for (const std::string& one : hosts) {
      names += (names.empty() ? "" : ", ") + (one.empty() ? "one without a name" : one);
    }
    fix = "choose from its hosts: " + names + "; or a number from 0 to " +
          std::to_string(hosts.size() - 1);
  }
  return clean_text(to_string({FindingKind::kBadValue, Severity::kError, "--host",
                               config::quoted(host) + " is not in " + file, std::move(fix)}));
}

// Returns the machine of a host that is not the first.
Result<Machine> other_host(const std::string& file, Result<std::vector<Machine>> machines,
                           const std::string& host) {
  if (!machines) return forward_error(machines);
  std::vector<std::string> names;
  for (Machine& one : *machines) {
    const bool is_number = host_number(host) == static_cast<int>(names.size());
    if (is_number || one.host == host) return std::move(one);
    names.push_back(one.host);
  }
  return fail(Code::kInvalidUsage, wrong_host_text(file, host, names));
}

// The ports as verbs would list them; none where the source has no names of HCAs.
std::vector<topology::VerbsPort> ports_of(const Machine& machine, const std::string& folder) {
  std::vector<topology::VerbsPort> ports;
  for (const topology::Hca& hca : machine.hcas) {
    if (!hca.named) return {};
    for (const topology::Port& port : hca.ports) {
      ports.push_back({.hca = hca.name,
                       .sysfs_path = folder + "/sys/class/infiniband/" + hca.name,
                       .data_path = "",
                       .guid = hca.guid,
                       .number = port.number,
                       .active = port.state == topology::Port::State::kActive,
                       .ethernet = port.link_layer == topology::Port::LinkLayer::kEthernet,
                       .speed_mbps = port.speed_mbps,
                       .gpudirect = true});
    }
  }
  return ports;
}

// Returns as much of the file as is looked at for its format, which is all of a text of nvidia-smi.
Result<std::string> read_start(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxPrologue, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open()) {
    return fail_errno(Code::kInvalidUsage, "\"" + file + "\" cannot be read", errno);
  }
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// The same as file_format(), with the name of the file in the error.
Result<FileFormat> format_of(const std::string& file, std::string_view text,
                             bool takes_smi = true) {
  Result<FileFormat> format = file_format(text, takes_smi);
  if (!format) return fail(format.error().code, file + ": " + format.error().text);
  return format;
}

}  // namespace

Result<FileFormat> file_format(std::string_view text, bool takes_smi) {
  const std::string root = root_element(text);
  if (root == "topology") return FileFormat::kHwloc;
  if (root == "system") return FileFormat::kNccl;
  if (topology::has_smi_matrix(text)) return FileFormat::kNvidiaSmi;
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.starts_with('{')) {
    return fail(Code::kInvalidUsage,
                "this is JSON: a file of --fingerprint is for nccl-gdr doctor --expect");
  }
  std::string known =
      "this is neither an hwloc XML file (which `lstopo file.xml` writes) nor a NCCL topology file "
      "(which NCCL writes with NCCL_TOPO_DUMP_FILE=file.xml)";
  if (takes_smi) known += " nor the text of `nvidia-smi topo -m`";
  return fail(Code::kInvalidUsage, known);
}

Result<FileFormat> file_format_of(const std::string& file, bool takes_smi) {
  Result<std::string> text = read_start(file);
  if (!text) return forward_error(text);
  return format_of(file, *text, takes_smi);
}

Result<Machine> read_file(const std::string& file, topology::Selection selection,
                          const std::optional<std::string>& host) {
  Result<std::string> text = read_start(file);
  if (!text) return forward_error(text);
  Result<FileFormat> format = format_of(file, *text);
  if (!format) return forward_error(format);
  const bool is_first = host_number(host.value_or("0")) == 0;
  if (*format == FileFormat::kNccl) {
    return is_first ? topology::nccl_xml(file, selection)
                    : other_host(file, topology::nccl_xml_hosts(file, selection), *host);
  }
  if (!is_first) return fail(Code::kInvalidUsage, wrong_host_text(file, *host, {""}));
  return *format == FileFormat::kNvidiaSmi ? topology::nvidia_smi(*text, file)
                                           : topology::hwloc_xml(file, selection);
}

Result<Machine> read_gathered(const std::string& folder, const topology::Selection& selection) {
  std::error_code unreadable;
  if (!std::filesystem::is_directory(std::filesystem::path(folder) / "sys" / "devices",
                                     unreadable)) {
    return fail(Code::kInvalidUsage,
                folder +
                    " is a folder without sys/devices: expected one that hwloc-gather-topology "
                    "packed, unpacked");
  }
  const ScopedVariable root("HWLOC_FSROOT", folder);
  Result<Machine> machine = topology::hwloc_live(selection);
  if (!machine) {
    machine = topology::sysfs_machine(std::filesystem::path(folder) / "sys", selection);
  }
  return machine;
}

Result<Machine> read_gathered_with_file(const std::string& folder, topology::ReadOptions options) {
  Result<Machine> gathered = read_gathered(folder, options.selection);
  const bool is_named = !options.topology_file.empty();
  const std::string file =
      folder + "/" + (is_named ? options.topology_file : options.default_topology_file);
  std::error_code absent;
  // The file of a site may have the GPUs of other machines.
  if (!gathered || gathered->gpus.empty()) return gathered;
  if (!std::filesystem::is_regular_file(file, absent)) return gathered;
  options.topology_file = file;
  options.sysfs_root = std::filesystem::path(folder) / "sys";
  Findings of_file;  // the check of the variable has them
  Machine machine = topology::read_machine(options, &of_file);
  if (!machine.nccl_file) return gathered;
  const std::vector<topology::VerbsPort> ports = ports_of(*gathered, folder);
  if (!ports.empty()) topology::replace_hcas(&machine, ports);
  for (topology::Hca& hca : machine.hcas) {
    if (hca.gpudirect == true) hca.gpudirect.reset();  // only verbs shows it
  }
  return machine;
}

}  // namespace gdr::tools::topo
