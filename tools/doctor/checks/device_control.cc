// The Device Control register of HCAs (PCI Express Base Specification, section 7.5.3.4).
//
// Its field Max_Read_Request_Size is reserved in virtual functions (section 9.3.5.4), and reads as
// 0 there.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/pci_functions.h"
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
  // Sets the bits of the field alone.
  const std::string command = fmt::format("setpci -s {} CAP_EXP+8.w={:04x}:{:04x}",
                                          topo::address_text(machine_of(host).hcas[hca]),
                                          read_request_field(wanted) << 12, kReadRequestMask);
  return warning(name, evidence, command + ", or set it in the firmware", {command});
}

Observation read_request_seen(const Host& host, size_t hca, int most) {
  const std::string name = hca_name(machine_of(host), hca);
  const int own = read_request_of(host, hca);
  if (own == 0) {
    return unknown(name, "the kernel does not show its PCI Express capability",
                   needs_for_config(host));
  }
  if (own < most || own < kSmallReadRequest) return small_read_request(host, hca, most);
  return ok(name, fmt::format("Max_Read_Request_Size is {} bytes{}", own,
                              own < kRecommendedReadRequest
                                  ? "; vendors of HCAs recommend 4096 from 100 Gb/s: compare "
                                    "ib_read_bw"
                                  : ""));
}

}  // namespace

Observations run_max_read_request(const Host& host) {
  std::vector<size_t> hcas = rail_hcas(host);
  std::erase_if(
      hcas, [&](size_t hca) { return machine_of(host).hcas[hca].physical_function.has_value(); });
  if (hcas.empty())
    return {nothing_on(host, "there is no physical function of an HCA with a rail")};
  int most = 0;
  for (const size_t hca : hcas) most = std::max(most, read_request_of(host, hca));
  Observations seen;
  for (const size_t hca : hcas) seen.push_back(read_request_seen(host, hca, most));
  return seen;
}

}  // namespace gdr::tools::doctor
