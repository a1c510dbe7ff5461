#include "plugin/standby_rails.h"

#include <algorithm>
#include <compare>
#include <optional>

#include "topology/distance.h"
#include "topology/live/gdr_verdict.h"

namespace gdr::plugin {
namespace {

using topology::GdrVerdict;
using topology::PathClass;

std::string label(const DeviceFacts& device) {
  return device.hca + ":" + std::to_string(device.port);
}

// Another device as the standby of one. The members are compared in this order, and the smaller is
// the better choice.
struct Candidate {
  topology::Distance distance;  // to the GPU that is farthest from it
  bool other_plane = false;
  bool same_card = false;
  size_t steps = 0;  // in the order of devices
  size_t device = 0;
  auto operator<=>(const Candidate&) const = default;
};

class Chooser {
 public:
  Chooser(const topology::RailDecision& decision, const std::vector<DeviceFacts>& devices,
          bool excludes_ports)
      : decision_(decision),
        ports_(topology::usable_ports(decision.plan)),
        devices_(devices),
        excludes_ports_(excludes_ports) {}

  StandbyRails choose(size_t device, size_t most) const;

 private:
  size_t hca(size_t device) const { return static_cast<size_t>(ports_[device].hca); }
  PathClass path(size_t gpu, size_t device) const {
    return decision_.paths.gpu_hca(gpu, hca(device));
  }
  GdrVerdict verdict(size_t gpu, size_t device) const {
    return topology::gdr_verdict(decision_, gpu, hca(device));
  }
  bool is_placed(size_t device) const;
  bool are_nearest(size_t gpu, size_t device) const;
  std::vector<size_t> bounding_gpus(size_t device) const;
  std::optional<std::string> misfit(size_t device, size_t other) const;
  std::string too_far(size_t other, const std::vector<size_t>& gpus) const;
  Candidate candidate(size_t device, size_t other, const std::vector<size_t>& gpus) const;
  std::string inactive_rails() const;

  const topology::RailDecision& decision_;
  const std::vector<topology::PortRef> ports_;  // of the devices
  const std::vector<DeviceFacts>& devices_;
  const bool excludes_ports_;
};

// Whether the decision has the device, and where it is on the PCI tree.
bool Chooser::is_placed(size_t device) const {
  return device < ports_.size() && hca_of(decision_.machine, ports_[device]).bdf.has_value();
}

// Whether no device is nearer to the GPU, or no GPU nearer to the device: NCCL chooses among the
// nearest devices of a GPU, and sends over the GPU that is nearest to a device (PXN).
bool Chooser::are_nearest(size_t gpu, size_t device) const {
  bool device_is = true, gpu_is = true;
  for (size_t other = 0; other < ports_.size(); ++other) {
    device_is = device_is && path(gpu, device) <= path(gpu, other);
  }
  for (size_t other = 0; other < decision_.machine.gpus.size(); ++other) {
    gpu_is = gpu_is && path(gpu, device) <= path(other, device);
  }
  return device_is || gpu_is;
}

// The GPUs that may use the device with GPUDirect: its rail's, by plan or by distance.
std::vector<size_t> Chooser::bounding_gpus(size_t device) const {
  std::vector<size_t> gpus;
  if (!is_placed(device)) return gpus;
  for (size_t gpu = 0; gpu < decision_.machine.gpus.size(); ++gpu) {
    const std::vector<const topology::Rail*> rails = decision_.plan.rails_of(gpu);
    const bool is_rail = std::any_of(rails.begin(), rails.end(), [&](const topology::Rail* rail) {
      return rail->port == ports_[device];
    });
    if ((is_rail || are_nearest(gpu, device)) && verdict(gpu, device).direct) gpus.push_back(gpu);
  }
  return gpus;
}

// Why the other device cannot carry what this one does, whatever its position.
std::optional<std::string> Chooser::misfit(size_t device, size_t other) const {
  const DeviceFacts &own = devices_[device], &its = devices_[other];
  if (own.ethernet != its.ethernet) {
    return label(its) + (its.ethernet ? " is RoCE" : " is InfiniBand");
  }
  if (!its.has_address) return its.address;
  if (own.has_address && own.address != its.address) {
    return label(its) + " has an address of another kind (" + its.address + ", not " + own.address +
           ")";
  }
  if ((own.gdr.dmabuf && !its.gdr.dmabuf) || (own.gdr.address && !its.gdr.address)) {
    return label(its) + " lacks a registration path for GPU memory: " + its.gdr_text;
  }
  if (own.data_direct != its.data_direct) {
    return "only one of it and " + label(its) + " uses Data Direct";
  }
  return std::nullopt;
}

// Why the other device is out of reach of one of the GPUs; "" where it is not.
std::string Chooser::too_far(size_t other, const std::vector<size_t>& gpus) const {
  if (!is_placed(other)) return "";
  for (size_t gpu : gpus) {
    const GdrVerdict its = verdict(gpu, other);
    if (its.direct) continue;
    std::string text =
        "from GPU" + std::to_string(gpu) + " to " + label(devices_[other]) + " " + its.reason;
    if (its.too_far) {
      text += std::string(". Fix: NCCL_NET_GDR_LEVEL=") + topology::to_string(its.distance) +
              " would allow it";
    }
    return text;
  }
  return "";
}

Candidate Chooser::candidate(size_t device, size_t other, const std::vector<size_t>& gpus) const {
  const DeviceFacts &own = devices_[device], &its = devices_[other];
  Candidate made;
  made.other_plane = own.plane != its.plane;
  made.same_card = own.hca == its.hca || (own.guid != 0 && own.guid == its.guid);
  made.steps = (other + devices_.size() - device) % devices_.size();
  made.device = other;
  if (gpus.empty() || !is_placed(other)) return made;
  made.distance.path = PathClass::kLoc;
  for (size_t gpu : gpus) {
    made.distance =
        std::max(made.distance,
                 topology::distance_between(decision_.machine, decision_.paths, gpu, hca(other)));
  }
  return made;
}

// The rails whose ports are not ACTIVE, so that they are no devices; "" where there are none.
std::string Chooser::inactive_rails() const {
  std::vector<std::string> ports;
  for (const topology::Rail& rail : decision_.plan.rails) {
    if (!rail.usable) ports.push_back(topology::port_label(decision_.machine, rail.port));
  }
  if (ports.empty()) return "";
  std::string text;
  for (const std::string& port : ports) text += (text.empty() ? "" : ", ") + port;
  return text + (ports.size() == 1 ? " is" : " are") +
         " not ACTIVE, and no standby rail of this job even if that changes";
}

StandbyRails Chooser::choose(size_t device, size_t most) const {
  const std::vector<size_t> gpus = bounding_gpus(device);
  std::vector<Candidate> within, beyond;
  StandbyRails standby;
  standby.why_none =
      excludes_ports_ ? "no other port is allowed by NCCL_IB_HCA" : "there is no other device";
  for (size_t other = 0; other < devices_.size(); ++other) {
    if (other == device) continue;
    if (std::optional<std::string> why = misfit(device, other)) {
      standby.why_none = *why;
      continue;
    }
    const Candidate made = candidate(device, other, gpus);
    (too_far(other, gpus).empty() ? within : beyond).push_back(made);
  }
  std::sort(within.begin(), within.end());
  if (within.size() > most) within.resize(most);
  for (const Candidate& one : within) standby.devices.push_back(one.device);
  if (!within.empty()) {
    standby.why_none.clear();
  } else if (!beyond.empty()) {
    const Candidate nearest = *std::min_element(beyond.begin(), beyond.end());
    standby.why_none = too_far(nearest.device, gpus);
  }
  const std::string inactive = within.empty() ? inactive_rails() : "";
  if (!inactive.empty()) {
    const bool alone = devices_.size() == 1;
    standby.why_none = inactive + (alone ? "" : "; " + standby.why_none);
  }
  return standby;
}

}  // namespace

std::vector<StandbyRails> choose_standby_rails(const topology::RailDecision& decision,
                                               const std::vector<DeviceFacts>& devices, size_t most,
                                               bool excludes_ports) {
  const Chooser chooser(decision, devices, excludes_ports);
  std::vector<StandbyRails> chosen;
  for (size_t device = 0; device < devices.size(); ++device) {
    chosen.push_back(chooser.choose(device, most));
  }
  return chosen;
}

std::string describe_standby(const std::vector<DeviceFacts>& devices, size_t device,
                             const StandbyRails& standby) {
  std::string line = "failover [" + std::to_string(device) + "] " + label(devices[device]) + " to ";
  if (standby.devices.empty()) return line + "no other rail: " + standby.why_none;
  for (size_t i = 0; i < standby.devices.size(); ++i) {
    line += (i == 0 ? "" : ", ") + label(devices[standby.devices[i]]);
  }
  return line;
}

// See config::load.
std::string describe_no_failover(const config::Environment& environment) {
  const auto mlx5 = environment.find(config::kMlx5SingleThreaded);
  if (mlx5 == environment.end() || mlx5->second != "1") {
    return "failover: off, as GDR_NCCL_FAILOVER=0 asks";
  }
  return std::string("failover: off, as ") + config::kMlx5SingleThreaded +
         "=1 removes locks that it needs";
}

}  // namespace gdr::plugin
