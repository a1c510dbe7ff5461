// Whether there is any RDMA device, and whether programs can use it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/finding.h"
#include "plugin/config/load.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/facts/pci_functions.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

// A network function of the PCI tree that should be an HCA.
struct HcaFunction {
  std::string address, ids, driver;
  bool is_infiniband = false;  // whose RDMA cannot be turned off
};

constexpr uint16_t kNvidiaNetworking = 0x15b3;  // formerly Mellanox
constexpr uint16_t kVirtio = 0x1af4;
constexpr uint32_t kNetworkController = 0x02, kInfiniband = 0x0207;  // Ethernet 0200

// The module that makes an RDMA device of a function with that driver.
constexpr auto kRdmaModules = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"mlx5_core", "mlx5_ib"}, {"mlx4_core", "mlx4_ib"}});

// Only physical functions of cards of which every model does RDMA: those of other vendors are
// often for the management network alone.
std::vector<HcaFunction> hca_functions(const Host& host) {
  std::vector<HcaFunction> functions;
  for (const fs::path& folder : topology::pci_folders(host.path("/sys"))) {
    const auto function = topology::pci_function(folder);
    if (!function || function->ids.vendor != kNvidiaNetworking ||
        function->class_code >> 16 != kNetworkController || function->physical_function) {
      continue;
    }
    std::error_code error;
    const fs::path driver = fs::read_symlink(folder / "driver", error);
    functions.push_back({function->bdf.to_string(),
                         fmt::format("{:04x}:{:04x}", function->ids.vendor, function->ids.device),
                         error ? "" : driver.filename().string(),
                         function->class_code >> 8 == kInfiniband});
  }
  return functions;
}

// Whether the kernel has the module; nothing where /sys/module is not visible.
std::optional<bool> has_rdma_module(const Host& host, const std::string& module) {
  if (!host.exists("/sys/module")) return {};
  return host.exists("/sys/module/" + module);
}

std::vector<std::string> load_rdma_module(const Host& host, const std::string& module) {
  if (is_in_container(host) || has_rdma_module(host, module).value_or(true)) return {};
  return {"modprobe " + module};
}

Observation function_without_driver(const Host& host, const std::string& subject) {
  return failure(subject, "the HCA has no driver (/sys/bus/pci/devices)",
                 has_rdma_module(host, "mlx5_core").value_or(false)
                     ? "look in dmesg for why mlx5_core, which is loaded, does not drive it"
                     : "load it: modprobe mlx5_core, and look at dmesg",
                 load_rdma_module(host, "mlx5_core"));
}

Observation function_without_rdma(const Host& host, const HcaFunction& function,
                                  const std::string& subject, const std::string& module) {
  const std::optional<bool> is_loaded = has_rdma_module(host, module);
  const std::string evidence =
      fmt::format("its driver is {}, but there is no RDMA device of it (/sys/class/infiniband): ",
                  function.driver);
  const char* state = is_loaded.value_or(false) ? "is" : is_loaded ? "is not" : "may not be";
  const std::string seen = fmt::format("{}{} {} loaded{}", evidence, module, state,
                                       function.is_infiniband ? "" : ", and RDMA may be disabled");
  std::string fix = fmt::format("look in dmesg for errors of {} and {}", function.driver, module);
  if (!function.is_infiniband) {
    fix = fmt::format(
        "devlink dev param set pci/{0} name enable_roce value true cmode driverinit, then devlink "
        "dev reload pci/{0}; or {1}",
        function.address, fix);
  }
  if (is_loaded.value_or(false)) return failure(subject, seen, fix);
  return failure(subject, seen, fmt::format("modprobe {}; if that is loaded: {}", module, fix),
                 load_rdma_module(host, module));
}

// A container may have a network namespace whose RDMA devices are its own only, so that those of
// the machine are not visible in it.
Observation lost_function(const Host& host, const HcaFunction& function) {
  const std::string subject = fmt::format("{} ({})", function.address, function.ids);
  if (function.driver == "vfio-pci") {
    return ok(subject, "its driver is vfio-pci: it is for a virtual machine");
  }
  if (is_in_container(host)) {
    return unknown(subject, "this container sees no RDMA device of the HCA",
                   "run it on the machine itself");
  }
  if (function.driver.empty()) return function_without_driver(host, subject);
  for (const auto& [driver, module] : kRdmaModules) {
    if (function.driver != driver) continue;
    return function_without_rdma(host, function, subject, std::string(module));
  }
  return unknown(subject, "its driver is " + function.driver,
                 "look at that driver's documentation");
}

void soften_rdma_failures(Observations* seen) {
  for (Observation& one : *seen) {
    if (one.verdict != Verdict::kFailure) continue;
    one.verdict = Verdict::kWarning;
    one.cost = Cost::kHalves;
  }
}

bool has_gpus_here(const Host& host) {
  return host.inspection.has_value() && !machine_of(host).gpus.empty() && !has_absent_gpus(host);
}

// Whether the machine may have an RDMA device that this container does not see: of a network card
// of any vendor. Containers see the PCI functions of the whole machine.
bool may_hide_rdma_device(const Host& host) {
  if (!is_in_container(host)) return false;
  const std::vector<fs::path> folders = topology::pci_folders(host.path("/sys"));
  return folders.empty() || std::any_of(folders.begin(), folders.end(), [](const fs::path& folder) {
           const auto function = topology::pci_function(folder);
           return function && function->class_code >> 16 == kNetworkController &&
                  function->ids.vendor != kVirtio;
         });
}

Observations without_rdma_device(const Host& host) {
  if (!host.exists("/sys/class")) {
    return {unknown("", "there is no /sys/class", "mount /sys, in a container too")};
  }
  const std::string evidence =
      "has no RDMA device: /sys/class/infiniband has none, and no PCI function is an HCA of "
      "NVIDIA. NCCL uses TCP sockets here";
  if (has_gpus_here(host) && !may_hide_rdma_device(host)) {
    return {failure("", "this machine has GPUs, but " + evidence,
                    "look for the HCA in lspci, in its slot and in dmesg. If this machine has none "
                    "by design, name the other checks by --check (nccl-gdr doctor --list)")};
  }
  return {unknown("", "this machine " + evidence,
                  "run it on a machine with an HCA. To try NCCL's traffic without one: nccl-gdr "
                  "with-softhca nccl-gdr perf all_reduce")};
}

std::string device_text(const RdmaHca& hca) {
  std::vector<std::string> parts;
  if (!hca.driver.empty()) parts.push_back(hca.driver);
  if (!hca.pci.empty()) parts.push_back(hca.pci);
  if (hca.is_virtual) parts.push_back("a device of software");
  parts.push_back(fmt::format("{} {}", hca.ports.size(), hca.ports.size() == 1 ? "port" : "ports"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Why an HCA does not have to be usable here; "" where it should be.
std::string reason_to_do_without(const Host& host, const RdmaHca& hca) {
  const auto uverbs = uverbs_by_device(host);
  const auto file = uverbs.find(hca.name);
  if (file != uverbs.end() && is_withheld(host, file->second)) {
    return "it is not given to this container or job, and other HCAs are";
  }
  const config::Options options = config::load(host.environment, nullptr);
  const bool is_accepted =
      hca.ports.empty()
          ? options.hcas.accepts(hca.name, 1)
          : std::any_of(hca.ports.begin(), hca.ports.end(), [&](const RdmaPort& port) {
              return options.hcas.accepts(hca.name, port.number);
            });
  return is_accepted ? "" : "NCCL_IB_HCA excludes it";
}

// How a container gets the device files.
std::string pass_devices(const Host& host) {
  if (is_in_docker(host)) return "start the container with --device=/dev/infiniband";
  if (host.process.container == Container::kKubernetes) {
    return "request the HCAs from the RDMA device plugin in the pod's resources (such as "
           "rdma/hca: 1), which adds their files of /dev/infiniband";
  }
  return "pass /dev/infiniband into the container";
}

std::string fix_of_open(const Host& host, const RdmaHca& hca) {
  if (hca.open_errno != ENOENT && hca.open_errno != EACCES && hca.open_errno != EPERM) {
    return "look in dmesg for the HCA's driver; reset or replace the HCA";
  }
  if (is_in_container(host)) return pass_devices(host);
  return "give users access by a udev rule: KERNEL==\"uverbs*\", "
         "SUBSYSTEM==\"infiniband_verbs\", MODE=\"0666\" in /etc/udev/rules.d/90-rdma.rules; that "
         "is the kernel's own choice, too";
}

// libibverbs lists no HCA without its file in /dev/infiniband.
Observation unlisted_device(const Host& host, const RdmaHca& hca) {
  const auto uverbs = uverbs_by_device(host);
  const auto file = uverbs.find(hca.name);
  if (file == uverbs.end() || !host.process.uverbs.has_value() ||
      uverbs_file(host, file->second) != nullptr) {
    return failure(
        hca.name, "the kernel has it (/sys/class/infiniband), but libibverbs does not list it",
        "modprobe ib_uverbs, and install the provider's library: apt install ibverbs-providers, or "
        "dnf install libibverbs",
        load_rdma_module(host, "ib_uverbs"));
  }
  const std::string evidence = fmt::format(
      "/sys/class/infiniband has it, and /dev/infiniband/{} does not exist", file->second);
  if (is_in_container(host)) return failure(hca.name, evidence, pass_devices(host));
  return failure(hca.name, evidence, "udevadm trigger --subsystem-match=infiniband_verbs",
                 {"udevadm trigger --subsystem-match=infiniband_verbs"});
}

// Why the transport can use none of the HCA's ports, and what can; "" where it can use one.
std::string fault_of_device(const Host& host, const RdmaHca& hca) {
  std::string fault;
  for (const RdmaPort& port : hca.ports) {
    fault = fault_of_kind(host, hca, port);
    if (fault.empty()) return "";
  }
  return fault;
}

// The plugin that NCCL loads in place of this one; "" where none was found.
std::string other_plugin(const Host& host) {
  const std::vector<std::string> entries = plugin_entries(host);
  for (const std::string& entry : entries) {
    if (names_this_plugin(entry)) return "";
    if (entry != "none") return value_text(host, "NCCL_NET_PLUGIN");
  }
  const LibraryFiles& files = host.libraries.default_plugin;
  const bool is_other = entries.empty() && !files.empty() && !files.front().is_this_plugin;
  return is_other ? files.front().file : "";
}

// Harmless beside an HCA that can be used or repaired, as of a management network, and where a
// plugin of its vendor is loaded.
Observation device_of_other_kind(const Host& host, const RdmaHca& hca, const std::string& fault,
                                 bool has_other) {
  const TextAndFix parts = split_fix(fault);
  const std::string evidence = fmt::format("{}; it {}", device_text(hca), parts.text);
  if (has_other) return ok(hca.name, evidence);
  const std::string plugin = other_plugin(host);
  if (!plugin.empty()) {
    return ok(hca.name,
              fmt::format("{}. NCCL loads another plugin than this one: {}", evidence, plugin));
  }
  return failure(hca.name, evidence + ". This plugin does not use it, and no other was found",
                 parts.fix.empty() ? "use an HCA of InfiniBand or RoCE" : parts.fix);
}

Observation rdma_device(const Host& host, const RdmaHca& hca) {
  const bool is_missing = hca.in_verbs.has_value() && !*hca.in_verbs;
  if (!is_missing && hca.open_error.empty()) return ok(hca.name, device_text(hca));
  const std::string reason = reason_to_do_without(host, hca);
  if (!reason.empty()) return ok(hca.name, reason);
  if (!is_missing) {
    return failure(hca.name, "libibverbs cannot open it: " + hca.open_error,
                   fix_of_open(host, hca));
  }
  return unlisted_device(host, hca);
}

// "0000:3b:00" of "0000:3b:00.1": two ports of a card that are bonded are one RDMA device.
std::string card_of(const std::string& address) { return address.substr(0, address.find('.')); }

bool has_usable_device(const Host& host) {
  const std::vector<RdmaHca>& hcas = host.ports.hcas;
  return std::any_of(hcas.begin(), hcas.end(),
                     [&](const RdmaHca& hca) { return fault_of_device(host, hca).empty(); });
}

// Whether the function should have an RDMA device beside those that can be used: others of its
// model have one, or it has no driver, or one of InfiniBand, beside GPUs. Others may be for a
// network alone.
bool is_expected(const Host& host, const HcaFunction& function) {
  const std::vector<RdmaHca>& hcas = host.ports.hcas;
  const auto is_peer = [&](const RdmaHca& hca) { return hca.pci_ids == function.ids; };
  if (std::any_of(hcas.begin(), hcas.end(), is_peer)) return true;
  return (function.driver.empty() || function.is_infiniband) && has_gpus_here(host);
}

// Whether a GPU does without what such an HCA would give it.
bool misses_hca(const Host& host) {
  const Findings& found = host.findings;
  return std::any_of(found.begin(), found.end(), [](const Finding& one) {
    return one.kind == FindingKind::kGdrReach || one.kind == FindingKind::kRailShare;
  });
}

// HCAs of NVIDIA without an RDMA device. Where no GPU misses them, they may be meant for something
// else.
Observations lost_functions(const Host& host) {
  Observations seen;
  const std::vector<RdmaHca>& hcas = host.ports.hcas;
  const bool has_usable = has_usable_device(host);
  for (const HcaFunction& function : hca_functions(host)) {
    const auto is_it = [&](const RdmaHca& hca) {
      return card_of(hca.pci) == card_of(function.address);
    };
    if (std::any_of(hcas.begin(), hcas.end(), is_it)) continue;
    if (!has_usable || is_expected(host, function)) seen.push_back(lost_function(host, function));
  }
  if (has_usable ? !misses_hca(host) : !has_gpus_here(host)) soften_rdma_failures(&seen);
  return seen;
}

}  // namespace

bool has_lost_hca(const Host& host) {
  if (!host.file.empty()) return false;
  const Observations lost = lost_functions(host);
  return std::any_of(lost.begin(), lost.end(), [](const Observation& one) {
    return one.verdict == Verdict::kFailure || one.verdict == Verdict::kWarning;
  });
}

Observations run_rdma_devices(const Host& host) {
  const Observations lost = lost_functions(host);
  if (host.ports.hcas.empty()) return lost.empty() ? without_rdma_device(host) : lost;
  Observations seen;
  const bool has_other = has_usable_device(host) || has_lost_hca(host);
  for (const RdmaHca& hca : host.ports.hcas) {
    const std::string fault = fault_of_device(host, hca);
    seen.push_back(fault.empty() ? rdma_device(host, hca)
                                 : device_of_other_kind(host, hca, fault, has_other));
  }
  seen.insert(seen.end(), lost.begin(), lost.end());
  if (shows_devices(host)) {
    const Observations without_gpu = findings_of(host, {FindingKind::kNoGpu});
    seen.insert(seen.end(), without_gpu.begin(), without_gpu.end());
  }
  if (!host.ports.verbs_error.empty()) {
    seen.push_back(failure("", "libibverbs is of no use: " + host.ports.verbs_error,
                           "apt install libibverbs1 ibverbs-providers, or dnf install libibverbs"));
  }
  return seen;
}

}  // namespace gdr::tools::doctor
