#include "plugin/rails.h"

#include <algorithm>

#include "base/log.h"
#include "plugin/hcas.h"
#include "plugin/topology_file.h"
#include "topology/grouping.h"
#include "topology/live/acs_notes.h"
#include "topology/live/gpu_facts.h"
#include "topology/live/gpu_links.h"
#include "topology/live/read_machine.h"
#include "topology/sources/nccl_xml_writer.h"
#include "transport/data/connection.h"
#include "transport/memory/registrar.h"

namespace gdr::plugin {
namespace {

using topology::Direction;

// On such a machine a switch of our making would lead GPUDirect over PCIe instead of C2C.
bool may_have_c2c(const topology::Machine& machine) {
  if (machine.cpu.arch == "arm64") return true;
  return std::any_of(machine.gpus.begin(), machine.gpus.end(),
                     [](const topology::Gpu& gpu) { return gpu.c2c_links > 0; });
}

// GPUs whose rail, by the user's map, is farther than another: NCCL goes by distance.
std::string gpus_against_distance(const topology::RailDecision& view) {
  std::string text;
  for (size_t gpu = 0; gpu < view.machine.gpus.size(); ++gpu) {
    bool nearer = std::any_of(
        view.plan.rails.begin(), view.plan.rails.end(), [&](const topology::Rail& rail) {
          return rail.usable && view.paths.gpu_hca(gpu, rail.port.hca) < view.plan.gpus[gpu].path;
        });
    if (nearer) text += (text.empty() ? "GPU" : ", GPU") + std::to_string(gpu);
  }
  return text;
}

}  // namespace

Rails::Rails(config::Options options, transport::Discovery* discovery)
    : merge_functions_(options.merge_functions),
      warn_cross_rail_(options.warn_cross_rail),
      strict_(options.strict),
      allowed_paths_(allowed_paths(options)) {
  if (is_dangling_topology(options.topology_file)) options.topology_file.clear();
  view_ = look(options, *discovery);
  choose(*discovery);
  if (devices_.empty()) {
    for (const topology::ExcludedPort& other : view_.plan.others) {
      discovery->skipped.push_back(topology::port_label(view_.machine, other.port) +
                                   " is no rail: " + other.reason +
                                   " (name it in NCCL_IB_HCA to use it all the same)");
    }
    return;
  }
  generate_topology(options);
}

topology::RailDecision Rails::look(const config::Options& options,
                                   const transport::Discovery& discovery) {
  topology::Notes notes;
  topology::Machine machine = topology::read_machine(options, &notes);
  for (const topology::Hca& hca : machine.hcas) {
    if (machine.nccl_file && hca.bdf.has_value()) in_file_.insert(*hca.bdf);
  }
  std::vector<transport::Device> ports = discovery.devices;
  ports.insert(ports.end(), discovery.inactive.begin(), discovery.inactive.end());
  transport::RegistrationPaths allowed = allowed_paths(options);
  allowed.dmabuf = allowed.dmabuf && topology::gpus_export_dmabuf();
  replace_hcas(&machine, ports, allowed);
  add_gpu_facts(&machine);
  // NCCL loads NVML itself, but may do so only later.
  (void)add_gpu_links(&machine, topology::uses_cuda() ? topology::LoadNvml::kYes
                                                      : topology::LoadNvml::kOnlyIfLoaded);
  topology::RailDecision view = topology::decide(std::move(machine), options, std::move(notes));
  note_acs(&view);
  return view;
}

void Rails::choose(const transport::Discovery& discovery) {
  for (const topology::Rail& rail : view_.plan.rails) {
    const topology::Hca& hca = view_.machine.hcas[rail.port.hca];
    for (const transport::Device& device : discovery.devices) {
      bool same = device.hca->name() == hca.name && device.port == hca.ports[rail.port.port].number;
      if (!same) continue;
      devices_.push_back(device);
      devices_.back().rail = rail.id;
    }
  }
}

void Rails::generate_topology(const config::Options& options) {
  bool free = options.topology_file.empty();
  bool by_itself = options.rail_map.has_value() && is_flat(view_) && !may_have_c2c(view_.machine);
  if (!free || !(options.generate_topology || by_itself)) {
    std::string against = options.rail_map.has_value() ? gpus_against_distance(view_) : "";
    if (against.empty()) return;
    view_.notes.warnings.push_back(
        "NCCL chooses by distance and will not follow GDR_NCCL_RAIL_MAP for " + against +
        ": set GDR_NCCL_GENERATE_TOPO_FILE=1, with NCCL_TOPO_FILE unset");
    return;
  }
  topology::Machine grouped = topology::group_under_switches(view_.machine, view_.plan);
  Result<std::string> name = publish_topology(topology::nccl_xml_text_of(grouped));
  if (!name) {
    view_.notes.warnings.push_back("no NCCL_TOPO_FILE could be made: " + name.error().text);
    return;
  }
  generated_file_ = *name;
  for (const topology::Hca& hca : grouped.hcas) {
    if (hca.bdf.has_value()) in_file_.insert(*hca.bdf);
  }
  view_.machine = std::move(grouped);
  view_.paths = topology::PathTable(view_.machine);
  topology::set_own_paths(view_.paths, &view_.plan);
}

void Rails::log() const {
  for (const std::string& text : view_.notes.warnings) GDR_WARN("%s", text.c_str());
  for (const std::string& text : view_.notes.infos) {
    GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
  }
  GDR_INFO(log::kInit | log::kNet, "machine read from %s", view_.machine.source.c_str());
  if (!generated_file_.empty()) {
    GDR_INFO(log::kInit | log::kNet, "NCCL_TOPO_FILE set to %s, with every GPU beside its rails",
             generated_file_.c_str());
  }
  for (const std::string& line : describe(view_)) {
    GDR_INFO(log::kInit | log::kNet, "%s", line.c_str());
  }
}

bool Rails::log_once(const std::string& what) {
  std::lock_guard lock(mutex_);
  return logged_.insert(what).second;
}

Status Rails::check_device(int device) {
  if (device < 0 || static_cast<size_t>(device) >= devices_.size()) return {};
  int gpu = topology::current_gpu(view_.machine);
  if (gpu < 0) return {};
  const transport::Device& chosen = devices_[device];
  topology::PortRef port = find_port(view_.machine, chosen.hca->name(), chosen.port);
  size_t hca = static_cast<size_t>(port.hca), index = static_cast<size_t>(gpu);
  topology::Verdict verdict = topology::gdr_verdict(view_.machine, view_.paths, view_.policy, index,
                                                    hca, Direction::kReceive);
  if (verdict.direct) return {};
  std::string who = "GPU" + std::to_string(gpu) + " uses " +
                    topology::port_label(view_.machine, port) + " without GPUDirect RDMA";
  std::string text = who + ", through host memory: " + verdict.reason;
  // A user who set the level knows; one who did not may lose half of the bandwidth without a word.
  bool warn = strict_ || !verdict.too_far ||
              (!view_.policy.level.has_value() && view_.machine.gpu_links_known);
  if (verdict.too_far) {
    text += std::string(". NCCL_NET_GDR_LEVEL=") +
            topology::to_string(view_.paths.gpu_hca(index, hca)) +
            " would allow it; an HCA under the GPU's own switch is faster";
  } else if (!view_.machine.hcas[hca].gpudirect.value_or(true)) {
    text += ". " + transport::why_not_direct(*chosen.hca, allowed_paths_);
  }
  if (strict_ && !verdict.too_far) {
    return fail(Code::kSystem, text + ". GDR_NCCL_STRICT=1 forbids that");
  }
  if (!log_once(who)) return {};
  if (warn) {
    GDR_WARN("%s", text.c_str());
  } else {
    GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
  }
  return {};
}

std::string Rails::reported_path(const topology::PciPlace& place) const {
  bool own = in_file_.count(place.bdf) > 0;
  return own ? place.sysfs_path : merged_path(place.sysfs_path, merge_functions_);
}

void Rails::check_rails(transport::Connection& connection) {
  for (size_t i = 0; i < connection.rails().size(); ++i) {
    int here = connection.rails()[i].address().rail, there = connection.peer().rail[i].rail;
    if (here == 0 || there == 0 || here == there) continue;
    std::string rails =
        "rail " + std::to_string(here - 1) + " to rail " + std::to_string(there - 1);
    if (!log_once(rails)) continue;
    constexpr char kText[] =
        "%s: %s. Between rails a rail-optimised fabric is slow or has no way "
        "at all; NCCL_CROSS_NIC=0 keeps rings on their rails";
    if (warn_cross_rail_) {
      GDR_WARN(kText, rails.c_str(), connection.text().c_str());
    } else {
      GDR_INFO(log::kInit | log::kNet, kText, rails.c_str(), connection.text().c_str());
    }
  }
}

}  // namespace gdr::plugin
