#include "topology/live/gpu_links.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "drivers/nvml/nvml_api.h"
#include "topology/sources/nvlinks.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

constexpr uint32_t kPowerBridge = 0x068001;  // PCI class of the CPU's end of an NVLink
constexpr uint32_t kDisplay = 0x03;          // PCI base class of a GPU

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

struct ShutDown {
  void operator()(const nvml::Api* api) const { api->shutdown(); }
};
using Session = std::unique_ptr<const nvml::Api, ShutDown>;

Library open_library(LoadNvml load) {
  int flags = RTLD_NOW | RTLD_LOCAL | (load == LoadNvml::kOnlyIfLoaded ? RTLD_NOLOAD : 0);
  return Library(dlopen("libnvidia-ml.so.1", flags));
}

Session open_session(const nvml::Api& api) {
  bool usable = api.init && api.shutdown && api.device_by_pci_bus_id && api.compute_capability;
  return Session(usable && api.init() == nvml::kSuccess ? &api : nullptr);
}

// The number of NVLinks that NCCL asks for, by compute capability (90 for 9.0).
unsigned most_nvlinks(int capability) {
  if (capability < 60) return 0;
  if (capability < 70) return 4;
  if (capability < 80) return 6;
  return capability < 90 ? 12 : 18;
}

// Reads the links of one GPU after the other. A query that NVML or the driver does not support
// counts as "no such link"; after any other failure read() returns false.
class GpuLinks {
 public:
  GpuLinks(const nvml::Api& api, const Machine& machine, const std::filesystem::path& sysfs_root)
      : api_(api), machine_(machine), sysfs_root_(sysfs_root) {}

  bool read(Gpu* gpu);

 private:
  void read_nvlinks(Gpu* gpu);
  void read_c2c_links(Gpu* gpu);
  bool is_usable(unsigned link);
  bool is_active(unsigned link);
  NvLink link_to(const nvml::PciInfo& remote) const;
  std::optional<unsigned> field(unsigned id, unsigned scope);
  bool accept(nvml::Rc rc);

  const nvml::Api& api_;
  const Machine& machine_;
  const std::filesystem::path& sysfs_root_;
  nvml::Device device_ = nullptr;
  int capability_ = 0;
  bool complete_ = true;
};

bool GpuLinks::accept(nvml::Rc rc) {
  bool answered = rc == nvml::kSuccess || rc == nvml::kErrorNotSupported ||
                  rc == nvml::kErrorInvalidArgument;  // the answer for links beyond the last
  if (!answered) complete_ = false;
  return rc == nvml::kSuccess;
}

std::optional<unsigned> GpuLinks::field(unsigned id, unsigned scope) {
  nvml::FieldValue value{};
  value.field = id;
  value.scope = scope;
  if (!api_.field_values || !accept(api_.field_values(device_, 1, &value)) || !accept(value.rc)) {
    return std::nullopt;
  }
  return value.value.number;
}

// From Hopper (90) on, the driver reports the state only as a field value.
bool GpuLinks::is_active(unsigned link) {
  if (capability_ >= 90) return field(nvml::kFieldNvLinkState, link) == nvml::kFeatureEnabled;
  int state = 0;
  return api_.nvlink_state && accept(api_.nvlink_state(device_, link, &state)) &&
         state == nvml::kFeatureEnabled;
}

// Querying the capability makes the driver train the link, so it has to precede the state query.
bool GpuLinks::is_usable(unsigned link) {
  unsigned p2p = 0;
  return api_.nvlink_capability &&
         accept(api_.nvlink_capability(device_, link, nvml::kNvLinkP2pSupported, &p2p)) &&
         p2p != 0 && is_active(link);
}

// A remote end without an address counts as an NVSwitch: virtual machines do not see NVSwitches,
// and NVML may then give no address.
NvLink GpuLinks::link_to(const nvml::PciInfo& remote) const {
  auto bdf = Bdf::parse({remote.bus_id, strnlen(remote.bus_id, sizeof(remote.bus_id))});
  if (!bdf) return NvLink{NvLink::To::kSwitch, std::nullopt, 1};
  bool known = std::any_of(machine_.gpus.begin(), machine_.gpus.end(),
                           [&](const Gpu& gpu) { return gpu.bdf == *bdf; });
  if (known) return NvLink{NvLink::To::kGpu, bdf, 1};
  auto function = pci_function(sysfs_root_ / "bus" / "pci" / "devices" / bdf->to_string());
  uint32_t class_code = function ? function->class_code : 0;
  if (class_code >> 16 == kDisplay) return NvLink{NvLink::To::kGpu, bdf, 1};
  return NvLink{class_code == kPowerBridge ? NvLink::To::kCpu : NvLink::To::kSwitch, std::nullopt,
                1};
}

void GpuLinks::read_nvlinks(Gpu* gpu) {
  for (unsigned link = 0; link < most_nvlinks(capability_); ++link) {
    if (!is_usable(link)) continue;
    nvml::PciInfo remote{};
    if (api_.nvlink_remote_pci_info &&
        accept(api_.nvlink_remote_pci_info(device_, link, &remote))) {
      add_nvlink(gpu, link_to(remote));
    }
  }
}

// NCCL counts a C2C link only where its bandwidth can be read, too.
void GpuLinks::read_c2c_links(Gpu* gpu) {
  if (capability_ < 90) return;
  unsigned links = field(nvml::kFieldC2cLinkCount, 0).value_or(0);
  for (unsigned link = 0; link < links; ++link) {
    if (field(nvml::kFieldC2cLinkStatus, link) != 1u) continue;
    const auto mb_per_s = field(nvml::kFieldC2cLinkMaxBandwidth, link);
    if (!mb_per_s) continue;
    ++gpu->c2c_links;
    gpu->c2c_mb_per_s = static_cast<int>(std::min<unsigned>(*mb_per_s, INT_MAX));
  }
}

bool GpuLinks::read(Gpu* gpu) {
  int major = 0, minor = 0;
  if (api_.device_by_pci_bus_id(gpu->bdf.to_string().c_str(), &device_) != nvml::kSuccess ||
      api_.compute_capability(device_, &major, &minor) != nvml::kSuccess) {
    return false;
  }
  nvml::MemoryInfo bar1{};
  if (api_.bar1_memory_info && api_.bar1_memory_info(device_, &bar1) == nvml::kSuccess) {
    gpu->bar1_bytes = bar1.total;
  }
  capability_ = major * 10 + minor;
  if (gpu->compute_capability == 0) gpu->compute_capability = capability_;
  complete_ = true;
  if (gpu->nvlinks.empty()) read_nvlinks(gpu);
  if (gpu->c2c_links == 0) read_c2c_links(gpu);
  return complete_;
}

}  // namespace

bool add_gpu_links(Machine* machine, LoadNvml load, const std::filesystem::path& sysfs_root) {
  Library library = open_library(load);
  if (!library) return false;
  const nvml::Api api = nvml::bind(library.get());
  Session session = open_session(api);
  if (!session) return false;
  GpuLinks links(api, *machine, sysfs_root);
  bool complete = true;
  for (Gpu& gpu : machine->gpus) complete = links.read(&gpu) && complete;
  if (complete) machine->gpu_links_known = true;
  return complete;
}

}  // namespace gdr::topology
