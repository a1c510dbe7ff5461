// Max_Read_Request_Size of HCAs, a field of the Device Control register (PCI Express Base
// Specification, section 7.5.3.4). The field is reserved in virtual functions (section 9.3.5.4),
// and reads as 0 there.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/pci_functions.h"
#include "tools/topo/checks.h"

namespace gdr::tools::doctor {
namespace {

constexpr int kRecommendedReadRequest = 4096;  // by vendors of HCAs
constexpr int kSmallReadRequest = 512;         // below it, reads of host and GPU memory are slow
constexpr uint16_t kReadRequestMask = 0x7000;

int read_request_of(const Host& host, size_t hca) {
  const auto state = host.pci_states.find(*host.inspection->decision.machine.hcas[hca].bdf);
  return state == host.pci_states.end() ? 0 : state->second.max_read_request;
}

// The value of the field for a size: 0 for 128 bytes, 5 for 4096.
int read_request_field(int bytes) {
  int field = 0;
  for (int size = 128; size < bytes; size *= 2) ++field;
  return field;
}

// Sets the field to `bytes`; nothing where the register cannot be read, so that there is no undo.
std::vector<FixStep> read_request_steps(const Host& host, const topology::Bdf& bdf, int bytes) {
  const std::optional<uint16_t> control = device_control_of(host, bdf);
  if (!control.has_value()) return {};
  const std::string line = fmt::format("setpci -s {} CAP_EXP+8.w=", bdf.to_string());
  return {{.comment = fmt::format("Sets Max_Read_Request_Size to {} bytes, until the next boot or "
                                  "reset of the device, and changes no other bit.",
                                  bytes),
           .command =
               fmt::format("{}{:x}000:{:04x}", line, read_request_field(bytes), kReadRequestMask),
           .undo = fmt::format("{}{:04x}:{:04x}", line, *control, kReadRequestMask)}};
}

// `most`: of the HCA's peers.
Observation small_read_request(const Host& host, size_t hca, int most) {
  const int own = read_request_of(host, hca);
  const int wanted = own < most ? most : kRecommendedReadRequest;
  const std::string name = topo::hca_name(host.inspection->decision.machine, hca);
  const std::string evidence =
      fmt::format("Max_Read_Request_Size is {} bytes, {} (Device Control, CAP_EXP+8)", own,
                  own < most ? fmt::format("that of its peers {}", most)
                             : fmt::format("{} is usual", kRecommendedReadRequest));
  if (is_virtual_machine(host)) {
    return unknown(name, evidence + ", which says nothing where it is a virtual function",
                   kNeedsHypervisor);
  }
  const topology::Bdf& bdf = *host.inspection->decision.machine.hcas[hca].bdf;
  return warning(name, evidence,
                 fmt::format("setpci -s {} CAP_EXP+8.w={:x}000:{:04x}, or set it in the firmware",
                             bdf.to_string(), read_request_field(wanted), kReadRequestMask),
                 read_request_steps(host, bdf, wanted));
}

// What is fine, with a hint where vendors recommend more.
Observation read_requests_in_order(const Host& host, const std::vector<size_t>& known) {
  const topology::Machine& machine = host.inspection->decision.machine;
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
  const topology::Machine& machine = host.inspection->decision.machine;
  std::vector<size_t> fine;
  std::vector<std::string> hidden;
  int most = 0;
  for (const size_t hca : hcas) most = std::max(most, read_request_of(host, hca));
  Observations seen;
  for (const size_t hca : hcas) {
    const int own = read_request_of(host, hca);
    if (own == 0) {
      hidden.push_back(topo::hca_name(machine, hca));
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

Observations run_max_read_request(const Host& host) {
  if (!host.inspection.has_value()) return {unknown("", host.inspection_error, "")};
  std::vector<size_t> hcas = rail_hcas(host);
  std::erase_if(hcas, [&](size_t hca) {
    return host.inspection->decision.machine.hcas[hca].physical_function.has_value();
  });
  if (hcas.empty())
    return {nothing_on(host, "there is no physical function of an HCA with a rail")};
  return judge_read_requests(host, hcas);
}

}  // namespace

Check max_read_request() {
  return {.name = "max-read-request",
          .looks_at = "Max_Read_Request_Size of the HCAs",
          .why =
              "An HCA that reads GPU memory in smaller pieces than its peers, or in very small "
              "ones, sends more slowly.",
          .cost = Cost::kSlows,
          .kinds = {FindingKind::kReadRequest},
          .run = run_max_read_request};
}

}  // namespace gdr::tools::doctor
