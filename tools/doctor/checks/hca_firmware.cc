// Whether HCAs of one model have one version of firmware.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::doctor {
namespace {

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

}  // namespace

Check hca_firmware() {
  return {.name = "hca-firmware",
          .looks_at = "the firmware of HCAs of one model",
          .why =
              "HCAs of different firmware behave differently under load, and drift is a frequent "
              "cause of one slow rail.",
          .cost = Cost::kRisk,
          .run = run_hca_firmware};
}

}  // namespace gdr::tools::doctor
