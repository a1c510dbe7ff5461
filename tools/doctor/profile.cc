#include "tools/doctor/profile.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::doctor {
namespace {

using Document = nlohmann::ordered_json;

// Returns the value of a key; null where it is missing.
const Document& value_at(const Document& json, const char* key) {
  static const Document null;
  auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : null;
}

std::optional<std::string> text_of(const Document& json) {
  if (json.is_null()) return std::nullopt;
  if (json.is_string()) return topo::clean_text(json.get_ref<const std::string&>());
  if (json.is_boolean()) return json.get<bool>() ? "yes" : "no";
  return json.dump();
}

std::optional<std::string> text_at(const Document& json, const char* key) {
  return text_of(value_at(json, key));
}

// Numbers that an int cannot hold are unknown.
std::optional<int> number_at(const Document& json, const char* key) {
  const Document& value = value_at(json, key);
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  const bool fits =
      number >= std::numeric_limits<int>::min() && number <= std::numeric_limits<int>::max();
  return fits ? std::optional(static_cast<int>(number)) : std::nullopt;
}

// Returns the texts of several keys, joined; nothing where the first is unknown.
std::optional<std::string> joined(const Document& json, std::initializer_list<const char*> keys,
                                  const char* between) {
  std::optional<std::string> all;
  for (const char* key : keys) {
    std::optional<std::string> text = text_at(json, key);
    if (!all.has_value()) {
      if (!text.has_value()) return std::nullopt;
      all = text;
    } else if (text.has_value()) {
      *all += between + *text;
    }
  }
  return all;
}

std::optional<std::string> link_text(const Document& device) {
  const Document& speed = value_at(device, "link_gt_per_s");
  const std::optional<int> width = number_at(device, "link_width");
  if (!speed.is_number() || !width.has_value()) return std::nullopt;
  return topo::pci_link_text({speed.get<double>(), *width});
}

std::optional<std::string> count_of(const Document& array) {
  return array.is_array() ? std::optional(std::to_string(array.size())) : std::nullopt;
}

std::vector<Property> pci_properties(const Document& device) {
  return {{"PCI device", joined(device, {"vendor", "device"}, ":")},
          {"NUMA node", text_at(device, "numa_node")},
          {"PCIe link", link_text(device)},
          {"GPUDirect support", text_at(device, "gpudirect")}};
}

// "6 to GPUs, 12 to NVSwitches"; nothing where a count is unknown.
std::optional<std::string> nvlinks_text(const Document& links) {
  if (!links.is_array()) return std::nullopt;
  int64_t gpus = 0, switches = 0, cpus = 0;
  for (const Document& link : links) {
    const std::optional<int> count = number_at(link, "count");
    if (!count.has_value()) return std::nullopt;
    const std::optional<std::string> to = text_at(link, "to");
    (to == "gpu" ? gpus : to == "switch" ? switches : cpus) += *count;
  }
  std::string text;
  auto add = [&](int64_t count, const char* to) {
    if (count > 0) text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", count, to);
  };
  add(gpus, "GPUs");
  add(switches, "NVSwitches");
  add(cpus, "the CPU");
  return text.empty() ? "none" : text;
}

// The texts of a key of each element: "0, 1"; "none" for an empty array.
std::optional<std::string> list_of(const Document& array, const char* key) {
  if (!array.is_array()) return std::nullopt;
  std::string list;
  for (const Document& item : array) {
    list += (list.empty() ? "" : ", ") + text_at(item, key).value_or("?");
  }
  return list.empty() ? "none" : list;
}

// The rails that NCCL uses for a GPU, in its order.
std::optional<std::string> nccl_rails(const Document& nccl, size_t gpu) {
  const Document& devices = value_at(nccl, "devices");
  for (const Document& one : value_at(nccl, "gpus")) {
    if (number_at(one, "gpu") != static_cast<int>(gpu)) continue;
    Document rails = Document::array();
    for (const Document& device : value_at(one, "devices")) {
      const int64_t index = device.is_number_integer() ? device.get<int64_t>() : -1;
      const bool exists =
          index >= 0 && devices.is_array() && static_cast<size_t>(index) < devices.size();
      rails.push_back(exists ? devices[static_cast<size_t>(index)] : Document());
    }
    return list_of(rails, "rail");
  }
  return std::nullopt;
}

DeviceProfile switch_profile(const Document& one) {
  const std::string address = text_at(one, "address").value_or("");
  return {"PCIe switch " + address,
          address,
          {{"PCI device", joined(one, {"vendor", "device"}, ":")},
           {"NUMA node", text_at(one, "numa_node")},
           {"PCIe link", link_text(one)}}};
}

DeviceProfile gpu_profile(const Document& gpu, const Document& nccl, size_t index) {
  DeviceProfile profile{"GPU" + std::to_string(index), text_at(gpu, "address").value_or(""), {}};
  profile.properties = pci_properties(gpu);
  const Document& rails = value_at(gpu, "rails");
  const Document& own = rails.is_array() && !rails.empty() ? rails[0] : Document();
  std::vector<Property> more = {
      {"partition", text_at(gpu, "partition")},
      {"model", text_at(gpu, "model")},
      {"compute capability", text_at(gpu, "compute_capability")},
      {"NVLinks", nvlinks_text(value_at(gpu, "nvlinks"))},
      {"NVLink-C2C links", text_at(gpu, "c2c_links")},
      {"rails", list_of(rails, "rail")},
      {"path to its rail", text_at(own, "path")},
      {"GPUDirect receive", text_at(value_at(own, "receive"), "direct")},
      {"GPUDirect send", text_at(value_at(own, "send"), "direct")},
      {"rails that NCCL uses", nccl_rails(nccl, index)},
  };
  profile.properties.insert(profile.properties.end(), more.begin(), more.end());
  return profile;
}

// "rail 3" or "excluded" for a port of an HCA.
std::optional<std::string> role_of(const Document& root, size_t hca, const std::string& port) {
  auto is_port = [&](const Document& one) {
    const std::string label = text_at(one, "port").value_or("");
    return number_at(one, "hca") == static_cast<int>(hca) && label.ends_with(":" + port);
  };
  for (const Document& rail : value_at(root, "rails")) {
    if (is_port(rail)) return "rail " + text_at(rail, "rail").value_or("?");
  }
  for (const Document& one : value_at(root, "excluded_ports")) {
    if (is_port(one)) return "excluded";
  }
  return std::nullopt;
}

DeviceProfile hca_profile(const Document& root, const Document& hca, size_t index) {
  DeviceProfile profile{text_at(hca, "name").value_or("HCA " + std::to_string(index)),
                        text_at(hca, "address").value_or(""),
                        {}};
  profile.properties = pci_properties(hca);
  profile.properties.push_back({"number of ports", count_of(value_at(hca, "ports"))});
  for (const Document& port : value_at(hca, "ports")) {
    const std::string number = text_at(port, "number").value_or("?");
    const std::string prefix = "port " + number + " ";
    const std::optional<int> speed = number_at(port, "speed_mbps");
    profile.properties.push_back({prefix + "state", text_at(port, "state")});
    profile.properties.push_back(
        {prefix + "speed", speed ? std::optional(topo::speed_text(*speed)) : std::nullopt});
    profile.properties.push_back({prefix + "link layer", text_at(port, "link_layer")});
    profile.properties.push_back({prefix + "role", role_of(root, index, number)});
  }
  return profile;
}

std::vector<Property> machine_properties(const Document& root) {
  return {{"CPU", joined(value_at(root, "cpu"), {"arch", "vendor", "family", "model"}, " ")},
          {"number of packages", count_of(value_at(root, "packages"))},
          {"number of NUMA nodes", count_of(value_at(root, "numa_nodes"))},
          {"NCCL's failure", text_at(value_at(root, "nccl"), "failure").value_or("none")}};
}

PathMatrix matrix_of(const Document& paths, const char* key) {
  PathMatrix matrix;
  for (const Document& row : value_at(value_at(paths, key), "class")) {
    std::vector<std::optional<std::string>>& cells = matrix.emplace_back();
    for (const Document& cell : row) cells.push_back(text_of(cell));
  }
  return matrix;
}

}  // namespace

Status add_topology(const Document& root, Profile* profile) {
  const std::optional<int> version = number_at(root, "schema_version");
  if (!version.has_value() || !value_at(root, "gpus").is_array() ||
      !value_at(root, "hcas").is_array()) {
    return fail(Code::kInvalidArgument, "it is not output of `nccl-gdr topo --json`");
  }
  if (*version != topo::kJsonSchemaVersion) {
    return fail(Code::kInvalidArgument,
                fmt::format("it has schema_version {}, and this program reads {}: write it again "
                            "by this release of nccl-gdr",
                            *version, topo::kJsonSchemaVersion));
  }
  profile->has_topology = true;
  profile->properties = machine_properties(root);
  for (const Document& gpu : root["gpus"]) {
    profile->gpus.push_back(gpu_profile(gpu, value_at(root, "nccl"), profile->gpus.size()));
  }
  for (const Document& hca : root["hcas"]) {
    profile->hcas.push_back(hca_profile(root, hca, profile->hcas.size()));
  }
  const Document& switches = value_at(root, "switches");
  profile->switches_known = switches.is_array();
  for (const Document& one : switches) profile->switches.push_back(switch_profile(one));
  profile->gpu_gpu = matrix_of(value_at(root, "paths"), "gpu_gpu");
  profile->gpu_hca = matrix_of(value_at(root, "paths"), "gpu_hca");
  return {};
}

}  // namespace gdr::tools::doctor
