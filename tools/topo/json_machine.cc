#include "tools/topo/json_values.h"

namespace gdr::tools::topo {
namespace {

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

}  // namespace

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

}  // namespace gdr::tools::topo
