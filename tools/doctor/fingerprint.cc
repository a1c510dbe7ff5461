#include "tools/doctor/fingerprint.h"

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>
#include <vector>

#include "tools/doctor/host.h"
#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using MaybeText = std::optional<std::string>;

MaybeText fingerprint_line(const Host& host, const std::string& file) {
  const std::string text = topo::clean_text(host.line(file));
  return text.empty() ? MaybeText() : text;
}

bool fingerprint_has(const Host& host, const std::string& file) {
  std::error_code ignored;
  return fs::exists(host.path(file), ignored);
}

// A module built with the kernel states no version of its own.
MaybeText fingerprint_module(const Host& host, const std::string& module) {
  if (!fingerprint_has(host, "/sys/module")) return {};
  const std::string folder = "/sys/module/" + module;
  if (!fingerprint_has(host, folder)) return "none";
  const std::string version = topo::clean_text(host.line(folder + "/version"));
  return version.empty() ? "that of the kernel" : version;
}

// /proc/driver/nvidia/version has "NVIDIA UNIX Open Kernel Module for x86_64" for the open modules.
MaybeText fingerprint_nvidia_modules(const Host& host) {
  const std::string line = host.line("/proc/driver/nvidia/version");
  if (line.empty()) return fingerprint_has(host, "/sys/module") ? MaybeText("none") : MaybeText();
  return line.find("Open Kernel Module") != std::string::npos ? "open" : "proprietary";
}

MaybeText fingerprint_system(const Host& host) {
  std::istringstream lines(host.read("/etc/os-release").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    constexpr char kKey[] = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    std::string name = line.substr(sizeof kKey - 1);
    std::erase(name, '"');
    return topo::clean_text(name);
  }
  return {};
}

// The options of the kernel's command line that change the path of peer-to-peer traffic; others,
// as that of the root file system, differ between nodes that are alike.
MaybeText fingerprint_kernel_options(const Host& host) {
  static const std::set<std::string> kNames = {
      "iommu", "intel_iommu",       "amd_iommu", "iommu.passthrough", "iommu.strict",
      "pci",   "pcie_acs_override", "pcie_aspm", "numa_balancing"};
  if (host.line("/proc/cmdline").empty()) return {};
  std::istringstream words(host.line("/proc/cmdline"));
  std::set<std::string> options;
  for (std::string word; words >> word;) {
    if (kNames.contains(word.substr(0, word.find('=')))) options.insert(topo::clean_text(word));
  }
  std::string text;
  for (const std::string& one : options) text += (text.empty() ? "" : " ") + one;
  return text.empty() ? "none" : text;
}

Json json_of(const MaybeText& text) { return text.has_value() ? Json(*text) : Json(nullptr); }

Json json_of(const Properties& properties) {
  Json object = Json::object();
  for (const auto& [name, value] : properties) object[name] = json_of(value);
  return object;
}

// The MTUs of the network interfaces of the HCA, in ascending order: "9000".
MaybeText fingerprint_mtus(const Host& host, const std::string& hca) {
  const std::string folder = "/sys/class/infiniband/" + hca + "/device/net";
  std::set<std::string> values;
  for (const std::string& one : host.names(folder)) {
    const std::string mtu = topo::clean_text(host.line(folder + "/" + one + "/mtu"));
    if (!mtu.empty()) values.insert(mtu);
  }
  std::string text;
  for (const std::string& one : values) text += (text.empty() ? "" : ", ") + one;
  return text.empty() ? MaybeText() : text;
}

topology::PciLink fingerprint_link(const Host& host, const topology::Bdf& bdf) {
  const auto state = host.pci_states.find(bdf);
  return state == host.pci_states.end() ? topology::PciLink{} : state->second.current;
}

// What the HCA's link runs at: "16 GT/s x8".
MaybeText fingerprint_hca_link(const Host& host, const std::string& name) {
  if (!host.inspection.has_value()) return {};
  for (const topology::Hca& hca : host.inspection->decision.machine.hcas) {
    if (hca.name != name || !hca.bdf.has_value()) continue;
    const topology::PciLink link = fingerprint_link(host, *hca.bdf);
    if (link.width > 0 && link.gt_per_s > 0) return topo::pci_link_text(link);
  }
  return {};
}

// Of a GPU's link the width alone: an idle GPU lowers the speed, and a fingerprint stays the same.
Json fingerprint_gpus(const Host& host) {
  Json gpus = Json::array();
  if (!host.inspection.has_value()) return gpus;
  const topology::Machine& machine = host.inspection->decision.machine;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const int width = fingerprint_link(host, machine.gpus[i].bdf).width;
    gpus.push_back({{"name", "GPU" + std::to_string(i)},
                    {"pcie_width",
                     json_of(width > 0 ? MaybeText("x" + std::to_string(width)) : MaybeText())}});
  }
  return gpus;
}

Json fingerprint_hcas(const Host& host) {
  Json hcas = Json::array();
  for (const std::string& name : host.names("/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + name;
    hcas.push_back({{"name", topo::clean_text(name)},
                    {"firmware", json_of(fingerprint_line(host, folder + "/fw_ver"))},
                    {"board", json_of(fingerprint_line(host, folder + "/board_id"))},
                    {"type", json_of(fingerprint_line(host, folder + "/hca_type"))},
                    {"netdev_mtu", json_of(fingerprint_mtus(host, name))},
                    {"pcie_link", json_of(fingerprint_hca_link(host, name))}});
  }
  return hcas;
}

Json fingerprint_settings(const Host& host) {
  Json settings = Json::object();
  for (const auto& [name, value] : host.environment) settings[name] = topo::clean_text(value);
  return settings;
}

Json fingerprint_topology(const Host& host) {
  if (!host.inspection.has_value()) return nullptr;
  return Json::parse(topo::json_text(host.inspection->decision, host.inspection->not_offered));
}

}  // namespace

Properties software_of(const Host& host) {
  return {{"kernel", fingerprint_line(host, "/proc/sys/kernel/osrelease")},
          {"kernel options", fingerprint_kernel_options(host)},
          {"operating system", fingerprint_system(host)},
          {"product", fingerprint_line(host, "/sys/class/dmi/id/product_name")},
          {"BIOS", fingerprint_line(host, "/sys/class/dmi/id/bios_version")},
          {"NVIDIA driver", fingerprint_module(host, "nvidia")},
          {"NVIDIA kernel modules", fingerprint_nvidia_modules(host)},
          {"nvidia_peermem", fingerprint_module(host, "nvidia_peermem")},
          {"mlx5_core driver", fingerprint_module(host, "mlx5_core")},
          {"nccl-gdr", GDR_VERSION}};
}

std::string to_fingerprint(const Host& host) {
  Properties software = software_of(host);
  if (host.is_live) software.merge(loaded_libraries());
  const Json json = {{"format", kFingerprintFormat},
                     {"version", kFingerprintVersion},
                     {"host", topo::clean_text(host.line("/proc/sys/kernel/hostname"))},
                     {"software", json_of(software)},
                     {"settings", fingerprint_settings(host)},
                     {"gpus", fingerprint_gpus(host)},
                     {"hcas", fingerprint_hcas(host)},
                     {"topology", fingerprint_topology(host)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gdr::tools::doctor
