// What the nodes of a cluster should have in common.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "tools/doctor/facts/host.h"
#include "tools/doctor/facts/nvidia_files.h"
#include "tools/doctor/report/profile.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

using topology::Machine;
using topology::PciLink;
using topology::PredictedRails;

// Leaves out what is unknown, whose text is empty.
Facts known(std::initializer_list<std::pair<const char*, std::string>> facts) {
  Facts result;
  for (const auto& [name, value] : facts) {
    if (!value.empty()) result[name] = value;
  }
  return result;
}

std::string yes_or_no(std::optional<bool> value) {
  return value.has_value() ? (*value ? "yes" : "no") : "";
}

// Numbers that are not positive are unknown.
std::string known_number(size_t number, const char* format = "{}") {
  return number > 0 ? fmt::format(fmt::runtime(format), number) : "";
}

std::string link_text(const PciLink& link) {
  const bool is_known = link.gt_per_s > 0 && link.width > 0 && !link.is_speed_assumed;
  return is_known ? topo::pci_link_text(link) : "";
}

std::string ids_text(const topology::PciIds& ids) {
  return ids.vendor == 0 ? "" : fmt::format("{:04x}:{:04x}", ids.vendor, ids.device);
}

// A module built with the kernel states no version of its own.
std::string module_text(const Host& host, const std::string& module) {
  if (!host.exists("/sys/module")) return "";
  if (!host.exists("/sys/module/" + module)) return "none";
  const std::string version = host.line("/sys/module/" + module + "/version");
  return version.empty() ? "that of the kernel" : version;
}

std::string nvidia_modules_text(const Host& host) {
  const NvidiaModule module = nvidia_module(host);
  if (module.state == NvidiaModule::State::kAbsent) return "none";
  return module.is_open.has_value() ? (*module.is_open ? "open" : "proprietary") : "";
}

std::string system_text(const Host& host) {
  std::string name = host.line_of("/etc/os-release", "PRETTY_NAME=").value_or("");
  std::erase(name, '"');
  return name;
}

// The options of the kernel's command line that change the path of peer-to-peer traffic; others,
// as that of the root file system, differ between nodes that are alike.
std::string kernel_options(const Host& host) {
  static const std::set<std::string> kNames = {
      "iommu", "intel_iommu",       "amd_iommu", "iommu.passthrough", "iommu.strict",
      "pci",   "pcie_acs_override", "pcie_aspm", "numa_balancing"};
  if (host.line("/proc/cmdline").empty()) return "";
  std::istringstream words(host.line("/proc/cmdline"));
  std::set<std::string> options;
  for (std::string word; words >> word;) {
    if (kNames.contains(word.substr(0, word.find('=')))) options.insert(word);
  }
  return options.empty() ? "none" : fmt::format("{}", fmt::join(options, " "));
}

std::string cuda_text(const Host& host) {
  if (!host.gpus.cuda.has_value()) return host.is_live ? "none" : "";
  const int version = host.gpus.cuda->version;  // 12080 is 12.8
  return version > 0 ? fmt::format("{}.{}", version / 1000, version % 1000 / 10) : "";
}

std::string library_text(const Host& host, const LibraryFiles& files) {
  if (!host.libraries.is_known) return "";
  if (files.empty()) return "none";
  return files.front().version.empty() ? "found" : files.front().version;
}

Facts software_of(const Host& host) {
  return known({{"kernel", kernel_release_of(host)},
                {"kernel options", kernel_options(host)},
                {"operating system", system_text(host)},
                {"product", host.line("/sys/class/dmi/id/product_name")},
                {"BIOS", host.line("/sys/class/dmi/id/bios_version")},
                {"NVIDIA driver", module_text(host, "nvidia")},
                {"NVIDIA kernel modules", nvidia_modules_text(host)},
                {"nvidia_peermem", module_text(host, "nvidia_peermem")},
                {"mlx5_core driver", module_text(host, "mlx5_core")},
                {"nccl-gdr", GDR_VERSION},
                {"CUDA driver API", cuda_text(host)},
                {"NCCL", library_text(host, host.libraries.nccl)},
                {"libibverbs", library_text(host, host.libraries.verbs)},
                {"plugin in the library path", library_text(host, host.libraries.gdr_plugin)}});
}

Facts machine_facts(const PredictedRails& decision) {
  const Machine& machine = decision.machine;
  const topology::Cpu& cpu = machine.cpu;
  const std::string& failure = decision.prediction.failure();
  return known({{"CPU", cpu.arch.empty() ? ""
                                         : fmt::format("{} {} {} {}", cpu.arch, cpu.vendor,
                                                       cpu.family, cpu.model)},
                {"number of packages", known_number(machine.packages.size())},
                {"number of NUMA nodes", known_number(machine.numa_nodes.size())},
                {kNcclFailure, failure.empty() ? "none" : failure}});
}

// What switches, GPUs and HCAs have in common.
template <class T>
Facts pci_facts(const Machine& machine, const T& device) {
  const std::string node = topo::numa_text(machine, device.at);
  return known({{"PCI device", ids_text(device.ids)},
                {"NUMA node", node == "N/A" ? "" : node},
                {"PCIe link", link_text(device.link)}});
}

// What the link of a function runs at now; not the speed of a GPU's, which it lowers when idle.
PciLink link_in_use(const Host& host, const std::optional<topology::Bdf>& bdf) {
  if (!bdf.has_value()) return {};
  const auto state = host.pci_states.find(*bdf);
  return state == host.pci_states.end() ? PciLink{} : state->second.current;
}

// "6 to GPUs, 12 to NVSwitches"; "" where a count is unknown.
std::string nvlinks_text(const Machine& machine, size_t gpu) {
  using To = topology::NvLink::To;
  if (!topo::gpu_links_known(machine, gpu)) return "";
  std::map<To, int> counts;
  for (const topology::NvLink& link : machine.gpus[gpu].nvlinks) {
    if (link.count <= 0) return "";
    counts[link.to] += link.count;
  }
  const std::map<To, const char*> names = {
      {To::kGpu, "GPUs"}, {To::kSwitch, "NVSwitches"}, {To::kCpu, "the CPU"}};
  std::string text;
  for (const auto& [to, count] : counts) {
    text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", count, names.at(to));
  }
  return text.empty() ? "none" : text;
}

Facts gpu_properties(const Host& host, size_t index) {
  const Machine& machine = host.inspection->decision.machine;
  const topology::Gpu& gpu = machine.gpus[index];
  const bool links_known = topo::gpu_links_known(machine, index);
  Facts facts = pci_facts(machine, gpu);
  facts.merge(
      known({{"GPUDirect support", yes_or_no(gpu.gpudirect)},
             {"partition", gpu.partition < 0 ? "" : std::to_string(gpu.partition)},
             {"model", gpu.model},
             {"compute capability", known_number(gpu.compute_capability)},
             {"NVLinks", nvlinks_text(machine, index)},
             {"NVLink-C2C links", links_known ? std::to_string(gpu.c2c_links) : ""},
             {"BAR1", known_number(bar1_bytes_of(host, gpu) >> 20, "{} MiB")},
             {"PCIe lanes in use", known_number(link_in_use(host, gpu.bdf).width, "x{}")}}));
  return facts;
}

// The rails of the devices that NCCL uses for a GPU, in its order: "0, 1".
std::string nccl_rails(const PredictedRails& decision, size_t gpu) {
  const topology::nccl::Prediction& prediction = decision.prediction;
  if (prediction.devices().empty()) return "";
  std::vector<int> rails;
  for (const size_t device : prediction.devices_of_gpu(gpu)) {
    const int rail = rail_of(decision.plan, prediction.devices()[device]);
    rails.push_back(decision.plan.rails[static_cast<size_t>(rail)].id);
  }
  return rails.empty() ? "none" : fmt::format("{}", fmt::join(rails, ", "));
}

Facts gpu_choices(const PredictedRails& decision, size_t gpu) {
  Facts facts = known({{"rails that NCCL uses, by number", nccl_rails(decision, gpu)}});
  const topology::Rail* rail = decision.plan.first_rail_of(gpu);
  facts["rails by number"] = rail == nullptr ? "none" : topo::rail_numbers(decision.plan, gpu);
  if (rail == nullptr) return facts;
  const auto hca = static_cast<size_t>(rail->port.hca);
  const topology::nccl::Verdicts verdicts = verdicts_between(decision, gpu, hca);
  facts["path to its rail"] = to_string(path_between(decision, gpu, hca));
  facts["GPUDirect receive"] = yes_or_no(verdicts.receive.direct);
  facts["GPUDirect send"] = yes_or_no(verdicts.send.direct);
  return facts;
}

Facts paths_from(const PredictedRails& decision, size_t gpu) {
  const Machine& machine = decision.machine;
  Facts paths;
  for (size_t other = 0; other < machine.gpus.size(); ++other) {
    if (other == gpu || topo::may_have_unknown_link(decision, gpu, other)) continue;
    paths[topo::gpu_label(other)] = to_string(decision.paths.gpu_gpu(gpu, other));
  }
  for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
    paths[machine.hcas[hca].name] = to_string(path_between(decision, gpu, hca));
  }
  return paths;
}

std::string layer_text(topology::Port::LinkLayer layer) {
  using Layer = topology::Port::LinkLayer;
  return layer == Layer::kInfiniBand ? "InfiniBand" : layer == Layer::kEthernet ? "Ethernet" : "";
}

// The MTUs of the network interfaces of the HCA, in ascending order: "9000".
std::string mtus_text(const Host& host, const std::string& hca) {
  const std::string folder = "/sys/class/infiniband/" + hca + "/device/net";
  std::set<std::string> values;
  for (const std::string& one : host.names(folder)) {
    const std::string mtu = host.line(folder + "/" + one + "/mtu");
    if (!mtu.empty()) values.insert(mtu);
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

Device hca_in_sysfs(const Host& host, const std::string& name) {
  const std::string folder = "/sys/class/infiniband/" + name;
  return {name,
          "",
          "",
          known({{"firmware", host.line(folder + "/fw_ver")},
                 {"board", host.line(folder + "/board_id")},
                 {"type", host.line(folder + "/hca_type")},
                 {"MTU of the interface", mtus_text(host, name)}}),
          {},
          {}};
}

// "rail 3" or "excluded".
std::string role_text(const topology::RailPlan& plan, topology::PortRef port) {
  const int rail = rail_of(plan, port);
  if (rail >= 0) return fmt::format("rail {}", plan.rails[static_cast<size_t>(rail)].id);
  const bool is_excluded = std::any_of(plan.excluded.begin(), plan.excluded.end(),
                                       [&](const auto& one) { return one.port == port; });
  return is_excluded ? "excluded" : "";
}

void add_port(const PredictedRails& decision, topology::PortRef ref, Device* hca) {
  const topology::Port& port = port_of(decision.machine, ref);
  const bool is_known = port.state != topology::Port::State::kUnknown;
  const std::string prefix = fmt::format("port {} ", port.number);
  const auto add = [&](const Facts& facts, Facts* to) {
    for (const auto& [name, value] : facts) (*to)[prefix + name] = value;
  };
  add(known({{"state", is_known ? topo::state_text(port.state) : ""},
             {"speed", port.speed_mbps > 0 ? topo::speed_text(port.speed_mbps) : ""},
             {"link layer", layer_text(port.link_layer)}}),
      &hca->properties);
  add(known({{"role", role_text(decision.plan, ref)}}), &hca->choices);
}

// "1, 2"
std::string ports_text(const topology::Hca& hca) {
  std::vector<int> numbers;
  for (const topology::Port& port : hca.ports) numbers.push_back(port.number);
  return numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, ", "));
}

Device hca_device(const Host& host, size_t index) {
  const PredictedRails& decision = host.inspection->decision;
  const topology::Hca& hca = decision.machine.hcas[index];
  Device device = hca_in_sysfs(host, hca.name);
  device.address = hca.bdf.has_value() ? hca.bdf->to_string() : "";
  device.guid = hca.guid == 0 ? "" : fmt::format("{:016x}", hca.guid);
  device.properties.merge(pci_facts(decision.machine, hca));
  device.properties.merge(known({{"GPUDirect support", yes_or_no(hca.gpudirect)},
                                 {"ports", ports_text(hca)},
                                 {"PCIe link in use", link_text(link_in_use(host, hca.bdf))}}));
  for (size_t port = 0; port < hca.ports.size(); ++port) {
    add_port(decision, {static_cast<int>(index), static_cast<int>(port)}, &device);
  }
  return device;
}

void add_topology(const Host& host, Profile* profile) {
  const PredictedRails& decision = host.inspection->decision;
  const Machine& machine = decision.machine;
  profile->machine.merge(machine_facts(decision));
  const size_t gpus = has_absent_gpus(host) ? 0 : machine.gpus.size();
  for (size_t i = 0; i < gpus; ++i) {
    const std::string address = machine.gpus[i].bdf.to_string();
    const std::string file = "/proc/driver/nvidia/gpus/" + address + "/information";
    const std::string uuid = host.line_of(file, "GPU UUID: \t ").value_or("");
    profile->devices[kGpuKind].push_back({topo::gpu_label(i), address, uuid,
                                          gpu_properties(host, i), paths_from(decision, i),
                                          gpu_choices(decision, i)});
  }
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    profile->devices[kHcaKind].push_back(hca_device(host, i));
  }
  for (const topology::Switch& one : machine.switches) {
    const std::string address = one.bdf.to_string();
    profile->devices[kSwitchKind].push_back(
        {"PCIe switch " + address, address, "", pci_facts(machine, one), {}, {}});
  }
}

// An HCA that the topology does not have, as one that verbs does not list.
void add_other_hcas(const Host& host, Profile* profile) {
  std::vector<Device>& hcas = profile->devices[kHcaKind];
  for (const std::string& name : host.names("/sys/class/infiniband")) {
    Device hca = hca_in_sysfs(host, name);
    const bool is_there = std::any_of(hcas.begin(), hcas.end(),
                                      [&](const Device& one) { return one.name == hca.name; });
    if (!is_there) hcas.push_back(std::move(hca));
  }
}

}  // namespace

Profile profile_of(const Host& host) {
  Profile profile;
  profile.host = host.line("/proc/sys/kernel/hostname");
  profile.machine = software_of(host);
  profile.settings = {host.environment.begin(), host.environment.end()};
  if (host.inspection.has_value()) add_topology(host, &profile);
  add_other_hcas(host, &profile);
  return profile;
}

}  // namespace gdr::tools::doctor
