#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/inspection/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using Json = nlohmann::ordered_json;

// Returns null for numbers that are not positive, with which the model says "unknown".
template <class Number>
Json number_or_null(Number number) {
  return number > 0 ? Json(number) : Json(nullptr);
}
// Returns null for negative numbers, with which the model says "unknown" or "none".
Json index_or_null(int number) { return number >= 0 ? Json(number) : Json(nullptr); }
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
// Returns "0x" and at least `digits` digits; null for 0.
Json hex_or_null(uint64_t number, int digits) {
  return number == 0 ? Json(nullptr) : Json(fmt::format("0x{:0{}x}", number, digits));
}
template <class T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Returns the array of make(0) to make(count - 1).
template <class F>
Json array_of(size_t count, F&& make) {
  Json array = Json::array();
  for (size_t i = 0; i < count; ++i) array.push_back(make(i));
  return array;
}

using topology::nccl::Prediction;
using topology::nccl::Route;
using topology::nccl::Settings;

Json address_or_null(const std::optional<Bdf>& bdf) {
  return bdf ? Json(bdf->to_string()) : Json(nullptr);
}

// Adds the keys that switches, GPUs and HCAs have in common.
template <class T>
void add_pci(const Machine& machine, const T& device, Json* json) {
  const Attachment& at = device.at;
  (*json)["switch"] =
      at.parent < 0 ? Json(nullptr) : Json(machine.switches[at.parent].bdf.to_string());
  (*json)["numa_node"] =
      at.numa < 0 ? Json(nullptr) : index_or_null(machine.numa_nodes[at.numa].id);
  (*json)["host_bridge"] = text_or_null(host_bridge_text(machine, at.host_bridge));
  (*json)["class"] = hex_or_null(device.class_code, 6);
  (*json)["vendor"] = hex_or_null(device.ids.vendor, 4);
  (*json)["device"] = hex_or_null(device.ids.device, 4);
  (*json)["subsystem_vendor"] = hex_or_null(device.ids.subsystem_vendor, 4);
  (*json)["subsystem_device"] = hex_or_null(device.ids.subsystem_device, 4);
  (*json)["link_gt_per_s"] = number_or_null(device.link.gt_per_s);
  (*json)["link_width"] = number_or_null(device.link.width);
}

Json cpu_json(const topology::Cpu& cpu) {
  // A family of 0 means that neither number is known, except that a model may stand alone.
  const bool known = cpu.family > 0 || cpu.model > 0;
  return {{"arch", text_or_null(cpu.arch)},
          {"vendor", text_or_null(cpu.vendor)},
          {"family", number_or_null(cpu.family)},
          {"model", known ? Json(cpu.model) : Json(nullptr)}};
}

Json distances_json(const std::map<int, int>& distances) {
  if (distances.empty()) return nullptr;
  Json json = Json::object();
  for (const auto& [node, distance] : distances) json[std::to_string(node)] = distance;
  return json;
}

Json numa_json(const Machine& machine, const NumaNode& node) {
  const std::string cpus = cpu_list(node.cpus);
  return {{"id", index_or_null(node.id)},
          {"package", node.package < 0 ? Json(nullptr) : Json(machine.packages[node.package].id)},
          {"cpu_mask", text_or_null(node.cpus)},
          {"cpus", cpus == "N/A" ? Json(nullptr) : Json(cpus)},
          {"distances", distances_json(node.distances)}};
}

Json switch_json(const Machine& machine, const Switch& one) {
  Json json = {{"address", one.bdf.to_string()}};
  add_pci(machine, one, &json);
  json["peers"] =
      array_of(one.peers.size(), [&](size_t i) { return Json(one.peers[i].to_string()); });
  return json;
}

Json nvlink_json(const NvLink& link) {
  const char* to = link.to == NvLink::To::kGpu      ? "gpu"
                   : link.to == NvLink::To::kSwitch ? "switch"
                                                    : "cpu";
  return {{"to", to}, {"gpu", address_or_null(link.gpu)}, {"count", number_or_null(link.count)}};
}

Json gpu_json(const Machine& machine, size_t index) {
  const Gpu& gpu = machine.gpus[index];
  const bool links_known = gpu_links_known(machine, index);
  Json json = {{"index", index},
               {"address", gpu.bdf.to_string()},
               {"partition", index_or_null(gpu.partition)},
               {"model", text_or_null(gpu.model)}};
  add_pci(machine, gpu, &json);
  json["compute_capability"] = number_or_null(gpu.compute_capability);
  json["gpudirect"] = value_or_null(gpu.gpudirect);
  json["nvlinks"] = links_known ? array_of(gpu.nvlinks.size(),
                                           [&](size_t i) { return nvlink_json(gpu.nvlinks[i]); })
                                : Json(nullptr);
  json["c2c_links"] = links_known ? Json(gpu.c2c_links) : Json(nullptr);
  json["c2c_mb_per_s"] = number_or_null(gpu.c2c_mb_per_s);
  return json;
}

Json port_json(const Port& port) {
  const bool state_known = port.state != Port::State::kUnknown;
  return {
      {"number", port.number},
      {"state", state_known ? Json(state_text(port.state)) : Json(nullptr)},
      {"speed_mbps", number_or_null(port.speed_mbps)},
      {"link_layer", port.link_layer == Port::LinkLayer::kInfiniBand ? Json("InfiniBand")
                     : port.link_layer == Port::LinkLayer::kEthernet ? Json("Ethernet")
                                                                     : Json(nullptr)},
  };
}

Json hca_json(const Machine& machine, size_t index) {
  const Hca& hca = machine.hcas[index];
  Json json = {{"index", index}, {"name", hca.name}, {"address", address_or_null(hca.bdf)}};
  add_pci(machine, hca, &json);
  json["guid"] = hex_or_null(hca.guid, 16);
  json["gpudirect"] = value_or_null(hca.gpudirect);
  json["physical_function"] = address_or_null(hca.physical_function);
  json["ports"] = array_of(hca.ports.size(), [&](size_t i) { return port_json(hca.ports[i]); });
  return json;
}

// `values` is null where it is empty: every machine has sockets and host bridges, so that a source
// without them does not state them.
Json array_or_null(Json values) { return values.empty() ? Json(nullptr) : values; }

// The keys that describe the machine: "source" to "hcas".
void add_machine(const Machine& machine, Json* root) {
  Json& json = *root;
  json["source"] = machine.source;
  json["host"] = text_or_null(machine.host);
  json["hosts"] = machine.hosts;
  json["cpu"] = cpu_json(machine.cpu);
  json["packages"] = array_or_null(array_of(machine.packages.size(), [&](size_t i) {
    return Json{{"id", machine.packages[i].id}};
  }));
  json["numa_nodes"] = array_of(machine.numa_nodes.size(), [&](size_t i) {
    return numa_json(machine, machine.numa_nodes[i]);
  });
  json["host_bridges"] = array_or_null(array_of(machine.host_bridges.size(), [&](size_t i) {
    return Json(host_bridge_text(machine, static_cast<int>(i)));
  }));
  json["switches"] = array_of(machine.switches.size(),
                              [&](size_t i) { return switch_json(machine, machine.switches[i]); });
  json["gpus"] = array_of(machine.gpus.size(), [&](size_t i) { return gpu_json(machine, i); });
  json["hcas"] = array_of(machine.hcas.size(), [&](size_t i) { return hca_json(machine, i); });
}

Json verdict_json(const Verdict& verdict) {
  return {{"direct", verdict.direct}, {"reason", verdict.reason}};
}

Json gpu_rail_json(const RailDecision& decision, size_t gpu, int position) {
  const Rail& rail = decision.plan.rails[position];
  size_t hca = rail.port.hca;
  Verdicts verdicts = verdicts_between(decision, gpu, hca);
  return {{"rail", rail.id},
          {"port", port_label(decision.machine, rail.port)},
          {"path", to_string(path_between(decision, gpu, hca))},
          {"display", gpu_hca_text(decision, gpu, hca)},
          {"receive", verdict_json(verdicts.receive)},
          {"send", verdict_json(verdicts.send)}};
}

void add_rails_of_gpus(const RailDecision& decision, Json* gpus) {
  for (size_t gpu = 0; gpu < decision.plan.gpus.size(); ++gpu) {
    const std::vector<int>& rails = decision.plan.gpus[gpu].rails;
    (*gpus)[gpu]["rails"] =
        array_of(rails.size(), [&](size_t i) { return gpu_rail_json(decision, gpu, rails[i]); });
  }
}

// A matrix of `a` rows and `b` columns; `path` and `display` return one cell.
template <class Path, class Display>
Json path_json(size_t a, size_t b, Path&& path, Display&& display) {
  Json classes = array_of(
      a, [&](size_t i) { return array_of(b, [&](size_t j) { return Json(path(i, j)); }); });
  Json words = array_of(
      a, [&](size_t i) { return array_of(b, [&](size_t j) { return Json(display(i, j)); }); });
  return {{"class", std::move(classes)}, {"display", std::move(words)}};
}

Json gpu_gpu_class(const RailDecision& decision, size_t a, size_t b) {
  if (may_have_unknown_link(decision, a, b)) return nullptr;
  return to_string(decision.paths.gpu_gpu(a, b));
}

Json paths_json(const RailDecision& decision) {
  size_t gpus = decision.machine.gpus.size(), hcas = decision.machine.hcas.size();
  Json json;
  json["gpu_hca"] = path_json(
      gpus, hcas, [&](size_t i, size_t j) { return to_string(path_between(decision, i, j)); },
      [&](size_t i, size_t j) { return gpu_hca_text(decision, i, j); });
  json["gpu_gpu"] = path_json(
      gpus, gpus, [&](size_t i, size_t j) { return gpu_gpu_class(decision, i, j); },
      [&](size_t i, size_t j) { return gpu_gpu_text(decision, i, j); });
  json["hca_hca"] = path_json(
      hcas, hcas, [&](size_t i, size_t j) { return to_string(decision.paths.hca_hca(i, j)); },
      [&](size_t i, size_t j) { return hca_hca_text(decision, i, j); });
  return json;
}

// Whether GPUDirect is possible in the direction; rows are GPUs, columns HCAs.
Json gpudirect_json(const RailDecision& decision, Verdict Verdicts::*direction) {
  return array_of(decision.machine.gpus.size(), [&](size_t gpu) {
    return array_of(decision.machine.hcas.size(), [&](size_t hca) {
      return Json((verdicts_between(decision, gpu, hca).*direction).direct);
    });
  });
}

Json rail_json(const RailDecision& decision, size_t position) {
  const Rail& rail = decision.plan.rails[position];
  return {{"rail", rail.id},
          {"hca", rail.port.hca},
          {"port", port_label(decision.machine, rail.port)},
          {"usable", rail.usable},
          {"why_not", rail.usable ? Json(nullptr) : Json(rail.why_not)},
          {"gpus", gpus_of_rail(decision.plan, position)}};
}

Json excluded_json(const Machine& machine, const ExcludedPort& other) {
  return {
      {"hca", other.port.hca}, {"port", port_label(machine, other.port)}, {"reason", other.reason}};
}

Json skipped_json(const discovery::SkippedPort& one) {
  return {{"kind", id_of(one.kind)}, {"port", text_or_null(one.port)}, {"reason", one.reason}};
}

Json finding_json(const Finding& finding) {
  const char* severity = finding.severity == Severity::kInfo      ? "info"
                         : finding.severity == Severity::kWarning ? "warning"
                                                                  : "error";
  return {{"kind", id_of(finding.kind)},
          {"severity", severity},
          {"subject", text_or_null(finding.subject)},
          {"text", finding.text},
          {"fix", text_or_null(finding.fix)}};
}

Json path_or_null(const std::optional<PathClass>& path) {
  return path ? Json(to_string(*path)) : Json(nullptr);
}

Json settings_json(const Settings& settings) {
  return {{"gdr_level", path_or_null(settings.gdr_level)},
          {"gdr_read", index_or_null(settings.gdr_read)},
          {"gdr_c2c", value_or_null(settings.gdr_c2c)},
          {"gdr_mlopart", settings.gdr_mlopart},
          {"pxn_disable", settings.pxn_disable},
          {"pxn_c2c", value_or_null(settings.pxn_c2c)},
          {"p2p_level", path_or_null(settings.p2p_level)},
          {"nvb_disable", settings.nvb_disable},
          {"netdevs_policy", policy_text(settings.net_devices)}};
}

Json device_json(const RailDecision& decision, size_t device) {
  const PortRef port = decision.prediction.devices()[device];
  const int position = rail_of(decision.plan, port);
  return {{"device", device},
          {"hca", port.hca},
          {"port", port_label(decision.machine, port)},
          {"rail", position < 0 ? Json(nullptr) : Json(decision.plan.rails[position].id)},
          {"local_gpu", index_or_null(decision.prediction.local_gpu(device))}};
}

Json direction_json(const Route& route, const Verdict& verdict) {
  Json json = {
      {"path", nullptr}, {"gb_per_s", nullptr}, {"hops", nullptr}, {"through_gpu", nullptr}};
  if (route.exists) {
    json["path"] = to_string(route.path);
    json["gb_per_s"] = number_or_null(route.gb_per_s);
    json["hops"] = number_or_null(route.hops);
    json["through_gpu"] = index_or_null(route.through_gpu);
  }
  json["distance"] = route.exists ? Json(to_string(verdict.distance)) : Json(nullptr);
  json["direct"] = verdict.direct;
  json["over_pcie"] = verdict.over_pcie;
  json["too_far"] = verdict.too_far;
  json["reason"] = verdict.reason;
  return json;
}

Json pair_json(const Prediction& prediction, size_t gpu, size_t device) {
  const Verdicts verdicts = prediction.verdicts(gpu, device);
  return {{"device", device},
          {"receive", direction_json(prediction.device_to_gpu(device, gpu), verdicts.receive)},
          {"send", direction_json(prediction.gpu_to_device(gpu, device), verdicts.send)}};
}

Json gpu_choice_json(const Prediction& prediction, size_t gpu) {
  return {{"gpu", gpu},
          {"devices", prediction.devices_of_gpu(gpu)},
          {"to_devices", array_of(prediction.devices().size(), [&](size_t device) {
             return pair_json(prediction, gpu, device);
           })}};
}

// The value of the key "nccl": what NCCL core will decide.
Json nccl_json(const RailDecision& decision) {
  const Prediction& prediction = decision.prediction;
  const size_t gpus = prediction.devices().empty() ? 0 : decision.machine.gpus.size();
  Json json;
  json["release"] = prediction.settings().release.to_string();
  json["settings"] = settings_json(prediction.settings());
  json["failure"] = text_or_null(prediction.failure());
  json["assumptions"] = prediction.assumptions();
  json["devices"] =
      array_of(prediction.devices().size(), [&](size_t i) { return device_json(decision, i); });
  json["gpus"] = array_of(gpus, [&](size_t i) { return gpu_choice_json(prediction, i); });
  return json;
}

}  // namespace

std::string json_text(const RailDecision& decision,
                      const std::vector<discovery::SkippedPort>& not_offered) {
  const Machine& machine = decision.machine;
  const RailPlan& plan = decision.plan;
  Json root;
  root["schema_version"] = kJsonSchemaVersion;
  add_machine(machine, &root);
  add_rails_of_gpus(decision, &root["gpus"]);
  root["paths"] = paths_json(decision);
  root["gpudirect"] = {{"receive", gpudirect_json(decision, &Verdicts::receive)},
                       {"send", gpudirect_json(decision, &Verdicts::send)}};
  root["rails"] = array_of(plan.rails.size(), [&](size_t i) { return rail_json(decision, i); });
  root["excluded_ports"] = array_of(
      plan.excluded.size(), [&](size_t i) { return excluded_json(machine, plan.excluded[i]); });
  root["not_offered"] =
      array_of(not_offered.size(), [&](size_t i) { return skipped_json(not_offered[i]); });
  root["nccl"] = nccl_json(decision);
  root["findings"] = array_of(decision.findings.size(),
                              [&](size_t i) { return finding_json(decision.findings[i]); });
  // Names come from files and may hold bytes that are not UTF-8.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gdr::tools::topo
