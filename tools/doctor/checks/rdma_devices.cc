// Whether there is any RDMA device, and whether programs can use it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

// A network function of the PCI tree that should be an HCA.
struct HcaFunction {
  std::string address, ids, driver;
};

constexpr uint16_t kNvidiaNetworking = 0x15b3;  // formerly Mellanox
constexpr uint32_t kNetworkController = 0x02;   // Ethernet 0200, InfiniBand 0207

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
                         error ? "" : driver.filename().string()});
  }
  return functions;
}

FixStep load_rdma_module(const std::string& module) {
  return {"Loads the kernel module " + module + ".", "modprobe " + module, "modprobe -r " + module};
}

Observation lost_function(const HcaFunction& function) {
  const std::string subject = fmt::format("{} ({})", function.address, function.ids);
  if (function.driver == "vfio-pci") {
    return ok(subject, "its driver is vfio-pci: it is for a virtual machine");
  }
  if (function.driver.empty()) {
    return failure(subject, "the HCA has no driver (/sys/bus/pci/devices)",
                   "load it: modprobe mlx5_core, and look at dmesg",
                   {load_rdma_module("mlx5_core")});
  }
  for (const auto& [driver, module] : kRdmaModules) {
    if (function.driver != driver) continue;
    return failure(subject,
                   fmt::format("its driver is {}, but there is no RDMA device of it "
                               "(/sys/class/infiniband): {} is not loaded, or RDMA is disabled",
                               driver, module),
                   fmt::format("modprobe {}; if that is loaded: devlink dev param set pci/{} name "
                               "enable_roce value true cmode driverinit, then devlink dev reload",
                               module, function.address),
                   {load_rdma_module(std::string(module))});
  }
  return unknown(subject, "its driver is " + function.driver,
                 "look at that driver's documentation");
}

Observations without_rdma_device(const Host& host) {
  const std::vector<HcaFunction> functions = hca_functions(host);
  Observations seen;
  for (const HcaFunction& one : functions) seen.push_back(lost_function(one));
  if (!seen.empty()) return seen;
  std::error_code error;
  if (!fs::is_directory(host.path("/sys/class"), error)) {
    return {unknown("", "there is no /sys/class", "mount /sys, in a container too")};
  }
  return {unknown("",
                  "this machine has no RDMA device: /sys/class/infiniband has none, and no PCI "
                  "function is an HCA of NVIDIA. NCCL uses TCP sockets here",
                  "run it on a machine with an HCA, or try a software one: rdma link add rxe0 type "
                  "rxe netdev INTERFACE")};
}

std::string device_text(const RdmaHca& hca) {
  std::vector<std::string> parts;
  if (!hca.driver.empty()) parts.push_back(hca.driver);
  if (!hca.pci.empty()) parts.push_back(hca.pci);
  if (hca.is_virtual) parts.push_back("a device of software");
  parts.push_back(fmt::format("{} {}", hca.ports.size(), hca.ports.size() == 1 ? "port" : "ports"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Observation rdma_device(const RdmaHca& hca) {
  if (!hca.open_error.empty()) {
    return failure(hca.name, fmt::format("libibverbs cannot open it: {}", hca.open_error),
                   "look at the permissions of /dev/infiniband/uverbs*; pass these devices to a "
                   "container: --device=/dev/infiniband");
  }
  if (hca.in_verbs.has_value() && !*hca.in_verbs) {
    return failure(hca.name,
                   "the kernel has it (/sys/class/infiniband), but libibverbs does not list it",
                   "modprobe ib_uverbs, and install the provider's library: apt install "
                   "ibverbs-providers, or dnf install libibverbs",
                   {load_rdma_module("ib_uverbs")});
  }
  return ok(hca.name, device_text(hca));
}

// HCAs without an RDMA device beside others of their model that have one.
void add_lost_peers(const Host& host, Observations* seen) {
  const std::vector<RdmaHca>& hcas = host.ports.hcas;
  for (const HcaFunction& function : hca_functions(host)) {
    const auto is_it = [&](const RdmaHca& hca) { return hca.pci == function.address; };
    const auto is_peer = [&](const RdmaHca& hca) { return hca.pci_ids == function.ids; };
    if (std::any_of(hcas.begin(), hcas.end(), is_it)) continue;
    if (std::any_of(hcas.begin(), hcas.end(), is_peer)) seen->push_back(lost_function(function));
  }
}

Observations run_rdma_devices(const Host& host) {
  if (host.ports.hcas.empty()) return without_rdma_device(host);
  Observations seen;
  for (const RdmaHca& hca : host.ports.hcas) seen.push_back(rdma_device(hca));
  add_lost_peers(host, &seen);
  if (!host.ports.verbs_error.empty()) {
    seen.push_back(failure("", "libibverbs is of no use: " + host.ports.verbs_error,
                           "apt install libibverbs1 ibverbs-providers, or dnf install libibverbs"));
  }
  return seen;
}

}  // namespace

Check rdma_devices() {
  return {.name = "rdma-devices",
          .looks_at = "the RDMA devices of the kernel and of libibverbs, and HCAs without one",
          .why = "Without an RDMA device NCCL moves everything by TCP sockets through host memory.",
          .cost = Cost::kStops,
          .run = run_rdma_devices};
}

}  // namespace gdr::tools::doctor
