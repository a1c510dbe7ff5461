#include "tools/prediction/gpudirect.h"

#include <algorithm>

namespace gdr::topology::nccl {
namespace {

constexpr int kFirstThatReadsWell = 80;  // compute capability 8.0

bool uses_c2c(const Rules& rules, const Settings& settings) {
  return rules.gdr_over_c2c != GdrOverC2c::kNever &&
         settings.gdr_c2c.value_or(rules.gdr_c2c_default);
}

PathClass level_of(const Rules& rules, const Settings& settings) {
  const bool by_level = rules.gdr_over_c2c == GdrOverC2c::kByLevel;
  const PathClass standard =
      by_level && uses_c2c(rules, settings) ? PathClass::kP2c : PathClass::kPxb;
  return rules.level(settings.gdr_level).value_or(standard);
}

}  // namespace

GpuDirect::GpuDirect(const Machine& machine, const std::vector<PortRef>& devices,
                     const Graph& graph, const Paths& paths, const LocalDevices& local_devices,
                     const Rules& rules, const Settings& settings)
    : machine_(machine),
      devices_(devices),
      graph_(graph),
      paths_(paths),
      local_devices_(local_devices),
      rules_(rules),
      settings_(settings) {}

const Gpu& GpuDirect::gpu_at(int node) const {
  const int index = graph_.nodes[static_cast<size_t>(node)].index;
  return machine_.gpus[static_cast<size_t>(index)];
}

// Sends read GPU memory, which GPUs before Ampere do slowly.
bool GpuDirect::may_read(int gpu, GdrCheck* check) const {
  if (settings_.gdr_read == 0) {
    check->why = GdrCheck::Why::kReadOff;
    return false;
  }
  const int capability = gpu_at(gpu).compute_capability;
  const bool slow = capability != 0 && capability < kFirstThatReadsWell;
  if (settings_.gdr_read > 0 || !slow || graph_.gpus.size() == 1) return true;
  const bool nvlink = std::any_of(graph_.gpus.begin(), graph_.gpus.end(), [&](int other) {
    const Path& path = paths_.between(gpu, other);
    return other != gpu && path.exists && path.path_class == PathClass::kNvl;
  });
  if (!nvlink) check->why = GdrCheck::Why::kOldGpu;
  return nvlink;
}

int GpuDirect::first_rank_of(int dev) const {
  for (const Link& link : graph_.nodes[static_cast<size_t>(dev)].links) {
    if (graph_.nodes[static_cast<size_t>(link.to)].kind == NodeKind::kGpu) return link.to;
  }
  return -1;
}

int GpuDirect::intermediate_gpu(int gpu, int device) const {
  const Path& path = paths_.between(gpu, device);
  const auto kind = [&](int node) { return graph_.nodes[static_cast<size_t>(node)].kind; };
  int stop = path.beyond;
  if (!rules_.has_dev_nodes && path.next >= 0 && kind(path.next) != NodeKind::kNvSwitch) {
    stop = path.next;
  }
  if (stop >= 0 && kind(stop) == NodeKind::kDev) stop = first_rank_of(stop);
  if (stop < 0 || kind(stop) != NodeKind::kGpu) return -1;
  if (!rules_.has_dev_nodes) return stop;
  // NCCL looks the rank up by NVML's number.
  return *std::find_if(graph_.gpus.begin(), graph_.gpus.end(), [&](int other) {
    return local_devices_.gpu_number(other) == local_devices_.gpu_number(stop);
  });
}

void GpuDirect::compare(int gpu, GdrCheck* check) const {
  const Path& to_cpu = paths_.between(gpu, local_devices_.local_cpu(gpu));
  check->c2c_gpu = to_cpu.exists && to_cpu.path_class == PathClass::kC2c;
  if (!rules_.knows_c2c) check->c2c_gpu = gpu_at(gpu).c2c_links > 0;
  PathClass compared = check->distance;
  if (rules_.gdr_over_c2c == GdrOverC2c::kAsC2c && uses_c2c(rules_, settings_)) {
    const bool over_c2c = rules_.p2c == P2c::kNone ? compared == PathClass::kPhb && check->c2c_gpu
                                                   : compared == PathClass::kP2c;
    if (over_c2c) compared = PathClass::kC2c;
  }
  check->as_c2c = compared != check->distance;
  check->direct = rules_.rank(compared) <= rules_.rank(level_of(rules_, settings_));
  const PathClass over_c2c =
      rules_.gdr_over_c2c == GdrOverC2c::kByLevel ? PathClass::kP2c : PathClass::kC2c;
  check->over_pcie = check->direct && check->c2c_gpu && compared != over_c2c &&
                     rules_.gdr_over_c2c != GdrOverC2c::kNever;
}

GdrCheck GpuDirect::check(int gpu, int device, Direction direction) const {
  GdrCheck check;
  const int number = graph_.nodes[static_cast<size_t>(device)].index;
  const Hca& hca = hca_of(machine_, devices_[static_cast<size_t>(number)]);
  const Gpu& one = gpu_at(gpu);
  const Path& path = paths_.between(gpu, device);
  check.distance = path.path_class;
  if (!path.exists) {
    check.why = GdrCheck::Why::kNoRoute;
  } else if (!hca.gpudirect.value_or(true)) {
    check.why = GdrCheck::Why::kDevice;
  } else if (!one.gpudirect.value_or(true)) {
    check.why = GdrCheck::Why::kGpu;
  } else if (rules_.knows_partitions && one.partition >= 0 && !settings_.gdr_mlopart) {
    check.why = GdrCheck::Why::kPartition;
  } else if (direction == Direction::kReceive || may_read(gpu, &check)) {
    if (path.path_class == PathClass::kPxn) {
      const int over = intermediate_gpu(gpu, device);
      if (over < 0) {
        check.why = GdrCheck::Why::kNoRoute;
        return check;
      }
      check.through_gpu = graph_.nodes[static_cast<size_t>(over)].index;
      check.distance = paths_.between(over, device).path_class;
      gpu = over;
    }
    compare(gpu, &check);
  }
  return check;
}

namespace {

std::string level_text(const Rules& rules, const Settings& settings) {
  const std::string name = to_string(level_of(rules, settings));
  if (rules.level(settings.gdr_level).has_value()) return "NCCL_NET_GDR_LEVEL=" + name;
  std::string text = name + ", the level where NCCL_NET_GDR_LEVEL is unset";
  if (settings.gdr_level.has_value()) {
    const std::string ignored = to_string(*settings.gdr_level);
    text += " (" + ignored + " is not a path class of NCCL " + rules.release.to_string() +
            ", which ignores NCCL_NET_GDR_LEVEL=" + ignored + ")";
  }
  return text;
}

// Why a GPU with C2C is not served over it.
std::string c2c_note(const GdrCheck& check, const Rules& rules, const Settings& settings) {
  if (!check.c2c_gpu || check.direct || check.as_c2c) return "";
  const std::string nccl = "NCCL " + rules.release.to_string();
  if (check.distance == PathClass::kPhb && rules.p2c == P2c::kLocal) {
    return "; " + nccl + " goes over NVLink-C2C only to the GPU's fastest HCAs";
  }
  const bool beside_cpu = check.distance == PathClass::kPhb || check.distance == PathClass::kP2c;
  if (!beside_cpu || uses_c2c(rules, settings)) return "";
  if (settings.gdr_c2c.has_value() && rules.gdr_over_c2c != GdrOverC2c::kNever) {
    return "; NCCL_NET_GDR_C2C=0 excludes NVLink-C2C";
  }
  if (rules.gdr_over_c2c == GdrOverC2c::kNever) {
    return "; " + nccl + " has no GPUDirect over NVLink-C2C";
  }
  return "; " + nccl + " uses GPUDirect over NVLink-C2C only with NCCL_NET_GDR_C2C=1";
}

std::string distance_text(const GdrCheck& check, const Rules& rules, const Settings& settings) {
  std::string words = to_string(check.distance);
  if (check.through_gpu >= 0) {
    words = "PXN through GPU" + std::to_string(check.through_gpu) + ", from there " + words;
  }
  if (check.as_c2c) {
    words += ", which NCCL " + rules.release.to_string() + " counts as C2C over NVLink-C2C,";
  }
  return words + (check.direct ? " is within " : " is beyond ") + level_text(rules, settings) +
         c2c_note(check, rules, settings);
}

}  // namespace

std::string reason_for(const GdrCheck& check, const std::string& device, bool from_file,
                       const Rules& rules, const Settings& settings) {
  switch (check.why) {
    case GdrCheck::Why::kDevice:
      return device + " registers no GPU memory: neither dma-buf nor peermem" +
             (from_file ? ", or gdr=\"0\" in NCCL's topology file" : "");
    case GdrCheck::Why::kGpu:
      return std::string("the driver offers no GPUDirect RDMA on this GPU") +
             (from_file ? ", or gdr=\"0\" in NCCL's topology file" : "");
    case GdrCheck::Why::kPartition:
      return "NCCL " + rules.release.to_string() +
             " uses GPUDirect on a partition of a GPU (MLOPart) only with NCCL_NET_GDR_MLOPART=1";
    case GdrCheck::Why::kReadOff:
      return "NCCL_NET_GDR_READ=0";
    case GdrCheck::Why::kOldGpu:
      return "GPUs before compute capability 8.0 without NVLink send directly only with "
             "NCCL_NET_GDR_READ=1";
    case GdrCheck::Why::kNoRoute:
      return "NCCL finds no route between them";
    case GdrCheck::Why::kDistance:
      break;
  }
  return distance_text(check, rules, settings);
}

}  // namespace gdr::topology::nccl
