// The health of HCAs: error counters of ports, which are not zero and which move, and firmware.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

// What a counter that moves means, by a part of its name; the first that matches counts. Sources:
// Documentation/ABI/stable/sysfs-class-infiniband of Linux, IBTA 16.1.3.5, and the names in the
// drivers mlx5, bnxt_re, irdma, efa and rxe.
struct CounterMeaning {
  std::string_view part, meaning, fix;
};

constexpr std::string_view kCable =
    "look at the cable and the transceivers (mlxlink -d HCA -c, or ethtool -m INTERFACE), swap "
    "them";
constexpr std::string_view kLoss =
    "look for drops on the switches, and at nccl-gdr doctor --check congestion-control";
constexpr std::string_view kPeer = "look at the peer's log: it may have died";

constexpr auto kMeanings = std::to_array<CounterMeaning>({
    {"symbol_error", "bits were damaged on the link", kCable},
    {"link_error_recovery", "the link trained again", kCable},
    {"link_downed", "the link went down", kCable},
    {"local_link_integrity", "bits were damaged on the link", kCable},
    {"remote_physical", "bits were damaged on another link of the path", kCable},
    {"port_rcv_errors", "damaged packets arrived", kCable},
    {"icrc", "damaged packets arrived", kCable},
    {"rnr_nak", "the receiver posted its buffers late", "look for a slow or stopped receiver"},
    {"out_of_buffer", "the receiver posted its buffers late",
     "look for a slow or stopped receiver"},
    {"discard", "the port could not send packets, and dropped them", kLoss},
    {"access_err", "a peer used memory keys that are not valid", kPeer},
    {"timeout", "acknowledgements did not arrive, and packets were sent again", kLoss},
    {"retr", "packets were sent again", kLoss},
    {"dup", "packets arrived twice, so that acknowledgements were lost", kLoss},
    {"seq", "packets were lost or arrived out of order", kLoss},
    {"out_of", "packets were lost or arrived out of order", kLoss},
    {"drop", "packets were dropped", kLoss},
});

const CounterMeaning* meaning_of(const std::string& counter) {
  const auto found = std::find_if(kMeanings.begin(), kMeanings.end(), [&](const auto& one) {
    return counter.find(one.part) != std::string::npos;
  });
  return found == kMeanings.end() ? nullptr : &*found;
}

void add_once(std::vector<std::string_view>* texts, std::string_view text) {
  if (std::find(texts->begin(), texts->end(), text) == texts->end()) texts->push_back(text);
}

// Of mlx5, these count each request that a queue pair gives up when it is closed, too.
bool is_of_closing(const std::string& counter) {
  return counter.find("cqe_error") != std::string::npos;
}

Observation moving_counters(const FabricPort& one) {
  std::vector<std::string_view> meanings, fixes;
  for (const auto& [name, unused] : *one.port->moved) {
    const CounterMeaning* meaning = meaning_of(name);
    if (meaning == nullptr) continue;
    add_once(&meanings, meaning->meaning);
    add_once(&fixes, meaning->fix);
  }
  if (fixes.empty()) add_once(&fixes, "look the counters up in the documentation of the driver");
  std::string evidence = fmt::format("{} within a second", transport::to_string(*one.port->moved));
  if (!meanings.empty()) evidence += fmt::format(": {}", fmt::join(meanings, "; "));
  return warning(one.label, evidence, fmt::format("{}", fmt::join(fixes, "; ")));
}

// "link_downed 1, packet_seq_err 3", at most six of them.
std::string counter_list(const transport::HardwareCounters& counters) {
  constexpr size_t kMost = 6;
  std::vector<std::string> texts;
  for (const auto& [name, value] : counters) {
    if (value != 0) texts.push_back(fmt::format("{} {}", name, value));
  }
  const size_t more = texts.size() > kMost ? texts.size() - kMost : 0;
  if (more > 0) texts.resize(kMost);
  return fmt::format("{}{}", fmt::join(texts, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

Observation error_counters_of(const FabricPort& one) {
  const RdmaPort& port = *one.port;
  if (!port.has_counters) {
    return unknown(one.label, "it has no counters in sysfs", "mount /sys of the host");
  }
  const auto is_sign = [](const auto& counter) { return !is_of_closing(counter.first); };
  const bool is_moving =
      port.moved.has_value() && std::any_of(port.moved->begin(), port.moved->end(), is_sign);
  if (is_moving) return moving_counters(one);
  const std::string list = counter_list(port.error_counters);
  const std::string since =
      list.empty() ? "all are 0" : "not 0 since the driver was loaded: " + list;
  if (!port.moved.has_value()) {
    if (list.empty()) return ok(one.label, since);
    return unknown(one.label, since + "; whether they move is unknown", "run it on the machine");
  }
  return ok(one.label, since + (list.empty() ? "" : "; none moved within a second"));
}

// HCAs of a model by their firmware. Boards of different makers (board_id, the PSID of NVIDIA) have
// different firmware for one chip, so that the board is a part of the model.
using HcasByFirmware = std::map<std::string, std::vector<const RdmaHca*>>;

std::map<std::string, HcasByFirmware> firmware_of_models(const Host& host) {
  std::map<std::string, HcasByFirmware> models;
  for (const RdmaHca& hca : host.ports.hcas) {
    if (hca.is_virtual || hca.firmware.empty()) continue;
    std::string model = hca.board_id.empty() ? hca.pci_ids : hca.board_id;
    if (model.empty()) model = hca.hca_type;
    models[hca.pci_ids + " " + model][hca.firmware].push_back(&hca);
  }
  return models;
}

std::vector<std::string> names_of_rdma_hcas(const std::vector<const RdmaHca*>& hcas) {
  std::vector<std::string> names;
  for (const RdmaHca* hca : hcas) names.push_back(hca->name);
  return names;
}

const std::string& usual_firmware(const HcasByFirmware& versions) {
  auto usual = versions.begin();
  for (auto one = versions.begin(); one != versions.end(); ++one) {
    if (one->second.size() >= usual->second.size()) usual = one;
  }
  return usual->first;
}

void add_firmware(const HcasByFirmware& versions, Observations* seen) {
  const std::string& usual = usual_firmware(versions);
  for (const auto& [version, hcas] : versions) {
    const std::string names = topo::short_list(names_of_rdma_hcas(hcas));
    if (version == usual) {
      seen->push_back(ok(names, "firmware " + version));
      continue;
    }
    const std::string pci = hcas.front()->pci.empty() ? "PCI" : hcas.front()->pci;
    seen->push_back(warning(names,
                            fmt::format("firmware {} (fw_ver in sysfs), where others of the board "
                                        "have {}",
                                        version, usual),
                            fmt::format("bring all to one version: mlxfwmanager -d {0} --query, "
                                        "mlxfwmanager -d {0} -u, then mlxfwreset -d {0} reset",
                                        pci)));
  }
}

}  // namespace

Observations run_error_counters(const Host& host) {
  Observations seen;
  for (const FabricPort& one : judged_ports(host)) seen.push_back(error_counters_of(one));
  if (seen.empty()) return {no_fabric_port(host)};
  return seen;
}

Observations run_hca_firmware(const Host& host) {
  Observations seen;
  for (const auto& [model, versions] : firmware_of_models(host)) add_firmware(versions, &seen);
  for (const RdmaHca& hca : host.ports.hcas) {
    if (hca.is_virtual || !hca.firmware.empty()) continue;
    seen.push_back(unknown(hca.name, "its firmware is unknown (no fw_ver in sysfs)",
                           "ibv_devinfo, or the vendor's tool"));
  }
  if (seen.empty()) return {nothing_on(host, "there is no HCA with firmware to look at")};
  return seen;
}

}  // namespace gdr::tools::doctor
