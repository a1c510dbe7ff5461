// The Device Control register of HCAs (PCI Express Base Specification, section 7.5.3.4).
//
// Its field Max_Read_Request_Size is reserved in virtual functions (section 9.3.5.4), and reads as
// 0 there.
//
// A device may set the attribute of relaxed ordering in its requests only where Enable Relaxed
// Ordering is set (bit 4). Linux clears it below root ports with an erratum, as of Intel's
// Broadwell (quirk_relaxedordering_disable() in drivers/pci/quirks.c), and there it must stay so.
// Virtual functions do not have the bit.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/pci_functions.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

constexpr int kRecommendedReadRequest = 4096;  // by vendors of HCAs
constexpr int kSmallReadRequest = 512;         // below it, reads of host and GPU memory are slow
constexpr uint16_t kReadRequestMask = 0x7000;

int read_request_of(const Host& host, size_t hca) {
  return state_of(host, machine_of(host).hcas[hca].bdf).max_read_request;
}

// The value of the field for a size: 0 for 128 bytes, 5 for 4096.
unsigned read_request_field(int bytes) {
  unsigned field = 0;
  for (int size = 128; size < bytes; size *= 2) ++field;
  return field;
}

// "setpci -s 0000:1b:00.0 CAP_EXP+8.w=5000:7000", which sets the bits of the mask.
std::string setpci(const Bdf& bdf, unsigned value, unsigned mask) {
  return fmt::format("setpci -s {} CAP_EXP+8.w={:04x}:{:04x}", bdf.to_string(), value, mask);
}

// A warning about the bits of the mask, with the step that sets them to `wanted`; without it where
// the register cannot be read, so that there is no undo.
Observation wrong_bits(const Host& host, size_t hca, const std::string& evidence,
                       const std::string& comment, std::pair<unsigned, unsigned> wanted_and_mask) {
  const auto [wanted, mask] = wanted_and_mask;
  const Bdf& bdf = *machine_of(host).hcas[hca].bdf;
  const std::string command = setpci(bdf, wanted, mask);
  std::vector<FixStep> steps;
  if (const auto control = device_control_of(host, bdf)) {
    steps = {{comment + ", until the next boot or reset of the device, and changes no other bit.",
              command, setpci(bdf, *control, mask)}};
  }
  return warning(hca_name(machine_of(host), hca), evidence, command + ", or set it in the firmware",
                 steps);
}

// `most`: of the HCA's peers.
Observation small_read_request(const Host& host, size_t hca, int most) {
  const int own = read_request_of(host, hca);
  const int wanted = own < most ? most : kRecommendedReadRequest;
  const std::string name = hca_name(machine_of(host), hca);
  const std::string evidence =
      fmt::format("Max_Read_Request_Size is {} bytes, {} (Device Control, CAP_EXP+8)", own,
                  own < most ? fmt::format("that of its peers {}", most)
                             : fmt::format("{} is usual", kRecommendedReadRequest));
  if (is_virtual_machine(host)) {
    return unknown(name, evidence + ", which says nothing where it is a virtual function",
                   kNeedsHypervisor);
  }
  return wrong_bits(host, hca, evidence,
                    fmt::format("Sets Max_Read_Request_Size to {} bytes", wanted),
                    {read_request_field(wanted) << 12, kReadRequestMask});
}

// What is fine, with a hint where vendors recommend more.
Observation read_requests_in_order(const Host& host, const std::vector<size_t>& known) {
  const Machine& machine = machine_of(host);
  std::vector<std::string> sizes;
  int least = kRecommendedReadRequest;
  for (const size_t hca : known) {
    const int bytes = read_request_of(host, hca);
    least = std::min(least, bytes);
    sizes.push_back(fmt::format("{} {} bytes", machine.hcas[hca].name, bytes));
  }
  return ok("", "Max_Read_Request_Size: " + topo::short_list(sizes) +
                    (least < kRecommendedReadRequest
                         ? "; vendors of HCAs recommend 4096 from 100 Gb/s: compare ib_read_bw"
                         : ""));
}

Observations judge_read_requests(const Host& host, const std::vector<size_t>& hcas) {
  const Machine& machine = machine_of(host);
  std::vector<size_t> fine;
  std::vector<std::string> hidden;
  int most = 0;
  for (const size_t hca : hcas) most = std::max(most, read_request_of(host, hca));
  Observations seen;
  for (const size_t hca : hcas) {
    const int own = read_request_of(host, hca);
    if (own == 0) {
      hidden.push_back(hca_name(machine, hca));
    } else if (own < most || own < kSmallReadRequest) {
      seen.push_back(small_read_request(host, hca, most));
    } else {
      fine.push_back(hca);
    }
  }
  if (!fine.empty()) seen.push_back(read_requests_in_order(host, fine));
  if (!hidden.empty()) {
    seen.push_back(unknown(topo::short_list(hidden),
                           "the kernel does not show its PCI Express capability",
                           needs_for_config(host)));
  }
  return seen;
}

constexpr char kRelaxedVariable[] = "NCCL_IB_PCI_RELAXED_ORDERING";
constexpr uint16_t kEnableRelaxedOrdering = 1 << 4;

// The CPUs on which strictly ordered writes are known to be slow. In a virtual machine, the CPU's
// vendor is that of the host.
bool is_ordering_slow(const topology::Cpu& cpu) {
  return cpu.arch == "arm64" || cpu.vendor == "AuthenticAMD" || cpu.vendor == "HygonGenuine";
}

// 2, the default, asks for it wherever the verbs library can.
Observation relaxed_setting(const Host& host) {
  if (nccl_setting(host, kRelaxedVariable) != "0") {
    return ok("", fmt::format("NCCL asks for it where {} is not 0", kRelaxedVariable));
  }
  const std::string evidence = setting_text(host, kRelaxedVariable);
  const topology::Cpu& cpu = machine_of(host).cpu;
  if (!is_ordering_slow(cpu)) {
    return ok("", evidence + "; it is not known to matter on this CPU");
  }
  return warning("", evidence, unset_text(host, kRelaxedVariable) + ", or set it to 1");
}

Observation disabled_hca(const Host& host, size_t hca, uint16_t control) {
  const Machine& machine = machine_of(host);
  const std::string name = hca_name(machine, hca);
  const std::string evidence = fmt::format(
      "Enable Relaxed Ordering is off: Device Control is {:#06x} (CAP_EXP+8 in its configuration "
      "space)",
      control);
  if (is_virtual_machine(host)) {
    return unknown(name, evidence + ", which says nothing where it is a virtual function",
                   kNeedsHypervisor);
  }
  if (!is_ordering_slow(machine.cpu)) {
    return ok(name, evidence + "; it is not known to matter on this CPU");
  }
  return wrong_bits(host, hca, evidence, "Sets Enable Relaxed Ordering of this device",
                    {kEnableRelaxedOrdering, kEnableRelaxedOrdering});
}

Observations relaxed_hcas(const Host& host, const std::vector<size_t>& hcas) {
  const Machine& machine = machine_of(host);
  std::vector<std::string> enabled, hidden, virtual_functions;
  Observations seen;
  for (const size_t hca : hcas) {
    const topology::Hca& one = machine.hcas[hca];
    const std::optional<uint16_t> control = device_control_of(host, *one.bdf);
    if (one.physical_function.has_value()) {
      virtual_functions.push_back(one.name);
    } else if (!control.has_value()) {
      hidden.push_back(one.name);
    } else if ((*control & kEnableRelaxedOrdering) == 0) {
      seen.push_back(disabled_hca(host, hca, *control));
    } else {
      enabled.push_back(one.name);
    }
  }
  if (!enabled.empty()) {
    seen.push_back(ok(topo::short_list(enabled),
                      "Enable Relaxed Ordering is on (CAP_EXP+8 in its configuration space)"));
  }
  if (!virtual_functions.empty()) {
    seen.push_back(ok(topo::short_list(virtual_functions),
                      "a virtual function, for which the bit of its physical function counts"));
  }
  if (!hidden.empty()) {
    seen.push_back(unknown(topo::short_list(hidden),
                           "the kernel does not show its PCI Express capability",
                           needs_for_config(host)));
  }
  return seen;
}

}  // namespace

Observations run_max_read_request(const Host& host) {
  std::vector<size_t> hcas = rail_hcas(host);
  std::erase_if(
      hcas, [&](size_t hca) { return machine_of(host).hcas[hca].physical_function.has_value(); });
  if (hcas.empty())
    return {nothing_on(host, "there is no physical function of an HCA with a rail")};
  return judge_read_requests(host, hcas);
}

Observations run_relaxed_ordering(const Host& host) {
  const std::vector<size_t> hcas = rail_hcas(host);
  if (hcas.empty()) return {nothing_on(host, "there is no HCA with a rail on PCIe")};
  Observations seen = relaxed_hcas(host, hcas);
  seen.push_back(relaxed_setting(host));
  return seen;
}

}  // namespace gdr::tools::doctor
