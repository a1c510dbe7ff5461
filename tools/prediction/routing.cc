#include "tools/prediction/routing.h"

#include <algorithm>

namespace gdr::topology::nccl {

Routing::Routing(const Machine& machine, const std::vector<PortRef>& devices, const Graph& graph,
                 const Rules& rules, const Settings& settings)
    : machine_(machine),
      graph_(graph),
      rules_(rules),
      settings_(settings),
      paths_(graph, rules, settings.nvb_disable),
      local_devices_(machine, graph, paths_, rules, settings.net_devices),
      gpu_direct_(machine, devices, graph, paths_, local_devices_, rules, settings),
      failure_(paths_.failure()),
      before_(machine.gpus.size() * devices.size()) {
  divert_gpus();
  if (rules.p2c != P2c::kNone) mark_p2c();
  route_to_devices();
}

void Routing::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

size_t Routing::pair(int gpu, int device) const {
  const auto index = static_cast<size_t>(graph_.nodes[static_cast<size_t>(gpu)].index);
  return index * graph_.nets.size() +
         static_cast<size_t>(graph_.nodes[static_cast<size_t>(device)].index);
}

// How far GPUs reach each other's memory.
PathClass Routing::p2p_level() const {
  const std::optional<PathClass> set = rules_.level(settings_.p2p_level);
  if (set.has_value()) return *set;
  const Cpu& cpu = machine_.cpu;
  const bool x86 = cpu.arch == "x86_64";
  if (rules_.p2p_over_any_cpu) {
    const bool amd_or_unknown = cpu.vendor != "GenuineIntel" && cpu.vendor != "CentaurHauls" &&
                                cpu.vendor != "  Shanghai  ";
    return cpu.arch == "arm64" || (x86 && !amd_or_unknown) ? PathClass::kPxb : PathClass::kSys;
  }
  const size_t gpus = rules_.has_dev_nodes ? static_cast<size_t>(graph_.devs) : graph_.gpus.size();
  const bool amd = x86 && cpu.vendor == "AuthenticAMD";
  return amd && gpus <= 2 ? PathClass::kSys : PathClass::kPxb;
}

bool Routing::reaches_directly(int from, int to, PathClass level) const {
  const Path& path = paths_.between(from, to);
  return path.exists && rules_.rank(path.path_class) <= rules_.rank(level);
}

void Routing::divert_gpus() {
  const PathClass level = p2p_level();
  for (int to : graph_.gpus) {
    for (int from : graph_.gpus) {
      if (!reaches_directly(from, to, level)) paths_.divert(from, local_devices_.local_cpu(to), to);
    }
  }
}

void Routing::mark_p2c(int gpu, int device) {
  const int cpu = local_devices_.local_cpu(gpu);
  const Path& here = paths_.between(gpu, cpu);
  const Path& there = paths_.between(device, cpu);
  const bool c2c = here.exists && here.path_class == PathClass::kC2c;
  if (rules_.p2c == P2c::kPhbPairs) {
    if (!c2c || paths_.between(gpu, device).path_class != PathClass::kPhb) return;
  } else if (!c2c || !there.exists || there.path_class != PathClass::kPhb) {
    return;
  }
  for (auto [from, to] : {std::pair(gpu, device), std::pair(device, gpu)}) {
    const Path& path = paths_.between(from, to);
    const bool nearer = path.exists && path.path_class < PathClass::kP2c;
    if (!nearer) paths_.set_class(from, to, PathClass::kP2c);
  }
  local_devices_.invalidate(gpu, device);
}

void Routing::mark_p2c() {
  if (rules_.p2c == P2c::kLocal) {
    for (int gpu : graph_.gpus) {
      for (int device : local_devices_.fastest_devices(gpu)) mark_p2c(gpu, device);
    }
    return;
  }
  for (int device : graph_.nets) {
    for (int gpu : graph_.gpus) mark_p2c(gpu, device);
  }
}

bool Routing::intermediate_is_near(int intermediate, int device) const {
  const Path& path = paths_.between(intermediate, device);
  if (!path.exists) return false;
  const bool over_c2c =
      rules_.pxn_over_c2c_known && settings_.pxn_c2c.value_or(rules_.pxn_over_c2c);
  if (over_c2c && path.path_class == PathClass::kP2c) return true;
  return rules_.rank(path.path_class) <= rules_.rank(PathClass::kPxb);
}

// PXN goes only over the GPU that NCCL counts as the device's own.
void Routing::try_pxn(int gpu, int device) {
  const int intermediate = local_devices_.local_gpu(device);
  if (intermediate < 0 || intermediate == gpu || !intermediate_is_near(intermediate, device))
    return;
  if (rules_.pxn_needs_gpudirect &&
      !gpu_direct_.check(intermediate, device, Direction::kSend).direct) {
    return;
  }
  const Path& back = paths_.between(intermediate, gpu);
  if (!back.exists || back.path_class > PathClass::kNvl) return;
  const Path& own = paths_.between(gpu, device);
  const bool faster = paths_.between(intermediate, device).gb_per_s > own.gb_per_s;
  if (!faster && paths_.rank(own) <= rules_.rank(rules_.pxn_beyond)) return;
  paths_.divert(gpu, intermediate, device);
  local_devices_.invalidate(gpu, device);
}

void Routing::fail_without_intermediate(int gpu, int device) {
  fail("Could not find intermediate GPU between GPU" +
       std::to_string(graph_.nodes[static_cast<size_t>(gpu)].index) + " and network device " +
       std::to_string(graph_.nodes[static_cast<size_t>(device)].index));
}

void Routing::divert_without_gpudirect(int gpu, int device) {
  const Path& own = paths_.between(gpu, device);
  const bool near = paths_.rank(own) < rules_.rank(PathClass::kPhb);
  const GdrCheck check = gpu_direct_.check(gpu, device, Direction::kReceive);
  before_[pair(gpu, device)] = check;
  const bool over_gpu = own.exists && own.path_class == PathClass::kPxn;
  if (over_gpu && check.why == GdrCheck::Why::kNoRoute) fail_without_intermediate(gpu, device);
  if ((rules_.diverts_near_only && !near) || check.direct) return;
  const int cpu = local_devices_.local_cpu(gpu);
  paths_.divert(device, cpu, gpu);
  paths_.divert(gpu, cpu, device);
  local_devices_.invalidate(gpu, device);
}

void Routing::route_to_devices() {
  for (int device : graph_.nets) {
    for (int gpu : graph_.gpus) {
      if (!settings_.pxn_disable) try_pxn(gpu, device);
      divert_without_gpudirect(gpu, device);
    }
  }
  // NCCL looks for the intermediate GPU of a route that is in use, and of no other.
  for (int device : graph_.nets) {
    for (int gpu : graph_.gpus) {
      const Path& path = paths_.between(gpu, device);
      const bool over_gpu = path.exists && path.path_class == PathClass::kPxn;
      if (over_gpu && gpu_direct_.intermediate_gpu(gpu, device) < 0)
        fail_without_intermediate(gpu, device);
    }
  }
}

GdrCheck Routing::check(int gpu, int device, Direction direction) const {
  const GdrCheck check = gpu_direct_.check(gpu, device, direction);
  const GdrCheck& before = before_[pair(gpu, device)];
  const bool too_far = check.why == GdrCheck::Why::kDistance && !check.direct;
  return too_far && !before.direct ? before : check;
}

}  // namespace gdr::topology::nccl
