#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(uint64_t number, int digits) { return fmt::format("0x{:0{}x}", number, digits); }

Json number_or_null(double number) { return number > 0 ? Json(number) : Json(nullptr); }
Json number_or_null(int number) { return number > 0 ? Json(number) : Json(nullptr); }

template <class T, class F>
Json array_of(const std::vector<T>& items, F&& to_json) {
  Json array = Json::array();
  for (const T& item : items) array.push_back(to_json(item));
  return array;
}

// Adds the keys that switches, GPUs and HCAs have in common.
template <class T>
void add_pci(const Machine& machine, const T& device, Json* json) {
  const Attachment& at = device.at;
  (*json)["switch"] =
      at.parent < 0 ? Json(nullptr) : Json(machine.switches[at.parent].bdf.to_string());
  (*json)["numa_node"] = at.numa < 0 ? Json(nullptr) : Json(machine.numa_nodes[at.numa].id);
  (*json)["host_bridge"] =
      at.host_bridge < 0 ? Json(nullptr) : Json(host_bridge_text(machine, at.host_bridge));
  (*json)["class"] = hex(device.class_code, 6);
  (*json)["vendor"] = hex(device.ids.vendor, 4);
  (*json)["device"] = hex(device.ids.device, 4);
  (*json)["subsystem_vendor"] = hex(device.ids.subsystem_vendor, 4);
  (*json)["subsystem_device"] = hex(device.ids.subsystem_device, 4);
  (*json)["link_gt_per_s"] = number_or_null(device.link.gt_per_s);
  (*json)["link_width"] = number_or_null(device.link.width);
}

Json numa_json(const Machine& machine, const NumaNode& node) {
  return {{"id", node.id},
          {"package", node.package < 0 ? Json(nullptr) : Json(machine.packages[node.package].id)},
          {"cpu_mask", node.cpus},
          {"cpus", node.cpus.empty() ? Json(nullptr) : Json(cpu_list(node.cpus))}};
}

Json switch_json(const Machine& machine, const Switch& one) {
  Json json = {{"address", one.bdf.to_string()}};
  add_pci(machine, one, &json);
  return json;
}

Json nvlink_json(const NvLink& link) {
  const char* to = link.to == NvLink::To::kGpu      ? "gpu"
                   : link.to == NvLink::To::kSwitch ? "switch"
                                                    : "cpu";
  return {{"to", to},
          {"gpu", link.gpu ? Json(link.gpu->to_string()) : Json(nullptr)},
          {"count", link.count}};
}

Json verdict_json(const Verdict& verdict) {
  return {{"direct", verdict.direct}, {"reason", verdict.reason}};
}

Json gpu_rail_json(const RailDecision& decision, size_t gpu, int position) {
  const Rail& rail = decision.plan.rails[position];
  size_t hca = rail.port.hca;
  std::string display = gpu_hca_text(decision, gpu, hca);
  std::string share = expected_share(display);
  Verdicts verdicts = verdicts_between(decision, gpu, hca);
  return {{"rail", rail.id},
          {"port", port_label(decision.machine, rail.port)},
          {"path", to_string(decision.paths.gpu_hca(gpu, hca))},
          {"display", display},
          {"expected_share", share == "-" ? Json(nullptr) : Json(share)},
          {"receive", verdict_json(verdicts.receive)},
          {"send", verdict_json(verdicts.send)}};
}

Json gpu_json(const RailDecision& decision, size_t index) {
  const Gpu& gpu = decision.machine.gpus[index];
  Json json = {{"index", index}, {"address", gpu.bdf.to_string()}, {"model", gpu.model}};
  add_pci(decision.machine, gpu, &json);
  json["compute_capability"] = number_or_null(gpu.compute_capability);
  json["gpudirect"] = gpu.gpudirect ? Json(*gpu.gpudirect) : Json(nullptr);
  json["nvlinks"] = array_of(gpu.nvlinks, nvlink_json);
  json["c2c_links"] = gpu.c2c_links;
  json["rails"] = array_of(decision.plan.gpus[index].rails,
                           [&](int rail) { return gpu_rail_json(decision, index, rail); });
  return json;
}

Json port_json(const Port& port) {
  const char* layer = port.link_layer == Port::LinkLayer::kInfiniBand ? "InfiniBand"
                      : port.link_layer == Port::LinkLayer::kEthernet ? "Ethernet"
                                                                      : "unknown";
  return {{"number", port.number},
          {"state", state_text(port.state)},
          {"speed_mbps", number_or_null(port.speed_mbps)},
          {"link_layer", layer}};
}

Json hca_json(const Machine& machine, size_t index) {
  const Hca& hca = machine.hcas[index];
  Json json = {{"index", index},
               {"name", hca.name},
               {"address", hca.bdf ? Json(hca.bdf->to_string()) : Json(nullptr)}};
  add_pci(machine, hca, &json);
  json["guid"] = hca.guid == 0 ? Json(nullptr) : Json(hex(hca.guid, 16));
  json["gpudirect"] = hca.gpudirect ? Json(*hca.gpudirect) : Json(nullptr);
  json["physical_function"] =
      hca.physical_function ? Json(hca.physical_function->to_string()) : Json(nullptr);
  json["ports"] = array_of(hca.ports, port_json);
  return json;
}

Json devices_json(size_t count, const std::function<Json(size_t)>& to_json) {
  Json array = Json::array();
  for (size_t i = 0; i < count; ++i) array.push_back(to_json(i));
  return array;
}

// A matrix of `a` rows and `b` columns; `path` and `display` return one cell.
template <class Path, class Display>
Json path_json(size_t a, size_t b, Path&& path, Display&& display) {
  Json classes = devices_json(a, [&](size_t i) {
    return devices_json(b, [&](size_t j) { return Json(to_string(path(i, j))); });
  });
  Json words = devices_json(
      a, [&](size_t i) { return devices_json(b, [&](size_t j) { return Json(display(i, j)); }); });
  return {{"class", std::move(classes)}, {"display", std::move(words)}};
}

Json paths_json(const RailDecision& decision) {
  size_t gpus = decision.machine.gpus.size(), hcas = decision.machine.hcas.size();
  const PathTable& paths = decision.paths;
  Json json;
  json["gpu_hca"] = path_json(
      gpus, hcas, [&](size_t i, size_t j) { return paths.gpu_hca(i, j); },
      [&](size_t i, size_t j) { return gpu_hca_text(decision, i, j); });
  json["gpu_gpu"] = path_json(
      gpus, gpus, [&](size_t i, size_t j) { return paths.gpu_gpu(i, j); },
      [&](size_t i, size_t j) { return gpu_gpu_text(decision, i, j); });
  json["hca_hca"] = path_json(
      hcas, hcas, [&](size_t i, size_t j) { return paths.hca_hca(i, j); },
      [&](size_t i, size_t j) { return hca_hca_text(decision, i, j); });
  return json;
}

// Whether GPUDirect is possible in the direction; rows are GPUs, columns HCAs.
Json gpudirect_json(const RailDecision& decision, Verdict Verdicts::*direction) {
  return devices_json(decision.machine.gpus.size(), [&](size_t gpu) {
    return devices_json(decision.machine.hcas.size(), [&](size_t hca) {
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

Json settings_json(const topology::nccl::Settings& settings) {
  return {{"release", settings.release.to_string()},
          {"level", settings.gdr_level ? Json(to_string(*settings.gdr_level)) : Json(nullptr)},
          {"read", settings.gdr_read},
          {"c2c", settings.gdr_c2c ? Json(*settings.gdr_c2c) : Json(nullptr)}};
}

}  // namespace

std::string json_text(const RailDecision& decision, const std::vector<std::string>& not_offered) {
  const Machine& machine = decision.machine;
  Json root;
  root["source"] = machine.source;
  root["cpu"] = {{"arch", machine.cpu.arch},
                 {"vendor", machine.cpu.vendor},
                 {"family", machine.cpu.family},
                 {"model", machine.cpu.model}};
  root["packages"] = array_of(machine.packages, [](const Package& one) {
    return Json{{"id", one.id}};
  });
  root["numa_nodes"] =
      array_of(machine.numa_nodes, [&](const NumaNode& node) { return numa_json(machine, node); });
  root["host_bridges"] = devices_json(machine.host_bridges.size(), [&](size_t i) {
    return Json(host_bridge_text(machine, static_cast<int>(i)));
  });
  root["switches"] =
      array_of(machine.switches, [&](const Switch& one) { return switch_json(machine, one); });
  root["gpus"] = devices_json(machine.gpus.size(), [&](size_t i) { return gpu_json(decision, i); });
  root["hcas"] = devices_json(machine.hcas.size(), [&](size_t i) { return hca_json(machine, i); });
  root["paths"] = paths_json(decision);
  root["gpudirect"] = {{"receive", gpudirect_json(decision, &Verdicts::receive)},
                       {"send", gpudirect_json(decision, &Verdicts::send)}};
  root["nccl"] = settings_json(decision.prediction.settings());
  root["rails"] =
      devices_json(decision.plan.rails.size(), [&](size_t i) { return rail_json(decision, i); });
  root["excluded_ports"] = array_of(decision.plan.excluded, [&](const ExcludedPort& other) {
    return excluded_json(machine, other);
  });
  root["not_offered"] = not_offered;
  // Names come from files and may hold bytes that are not UTF-8.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gdr::tools::topo
