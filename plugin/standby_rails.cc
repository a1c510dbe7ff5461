#include "plugin/standby_rails.h"

#include <algorithm>
#include <compare>

#include "topology/distance.h"
#include "topology/live/gdr_verdict.h"

namespace gdr::plugin {
namespace {

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
  Chooser(const topology::RailDecision& decision, const std::vector<DeviceFacts>& devices)
      : decision_(decision), ports_(topology::usable_ports(decision.plan)), devices_(devices) {}

  StandbyRails choose(size_t device, size_t most) const;

 private:
  size_t hca(size_t device) const { return static_cast<size_t>(ports_[device].hca); }
  PathClass path(size_t gpu, size_t device) const {
    return decision_.paths.gpu_hca(gpu, hca(device));
  }
  topology::GdrVerdict verdict(size_t gpu, size_t device) const {
    return topology::gdr_verdict(decision_, gpu, hca(device));
  }
  bool is_placed(size_t device) const;
  bool are_nearest(size_t gpu, size_t device) const;
  std::vector<size_t> bounding_gpus(size_t device) const;
  std::string why_not(size_t device, size_t other, const std::vector<size_t>& gpus) const;
  Candidate candidate(size_t device, size_t other, const std::vector<size_t>& gpus) const;

  const topology::RailDecision& decision_;
  const std::vector<topology::PortRef> ports_;  // of the devices
  const std::vector<DeviceFacts>& devices_;
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

// Why the other device cannot carry what this one does, or is out of reach of one of the GPUs; ""
// where it can.
std::string Chooser::why_not(size_t device, size_t other, const std::vector<size_t>& gpus) const {
  const DeviceFacts &own = devices_[device], &its = devices_[other];
  if (own.ethernet != its.ethernet) {
    return label(its) + (its.ethernet ? " is RoCE" : " is InfiniBand");
  }
  if (!its.has_address) return its.address;
  if (own.has_address && own.address != its.address) {
    return label(its) + " has an address of another kind (" + its.address + ", not " + own.address +
           ")";
  }
  if ((own.gdr & its.gdr) != own.gdr) {
    return label(its) + " lacks a registration path for GPU memory: " + its.gdr_text;
  }
  if (own.data_direct != its.data_direct) {
    return "only one of it and " + label(its) + " uses Data Direct";
  }
  if (!is_placed(other)) return "";
  for (size_t gpu : gpus) {
    const topology::GdrVerdict reach = verdict(gpu, other);
    if (!reach.direct) {
      return "from GPU" + std::to_string(gpu) + " to " + label(its) + " " + reach.reason;
    }
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

StandbyRails Chooser::choose(size_t device, size_t most) const {
  const std::vector<size_t> gpus = bounding_gpus(device);
  std::vector<Candidate> candidates;
  StandbyRails standby{{}, "there is no other device; NCCL_IB_HCA may exclude ports"};
  for (size_t step = 1; step < devices_.size(); ++step) {
    const size_t other = (device + step) % devices_.size();
    const std::string why = why_not(device, other, gpus);
    if (why.empty()) candidates.push_back(candidate(device, other, gpus));
    if (step == 1) standby.why_none = why;
  }
  std::sort(candidates.begin(), candidates.end());
  if (candidates.size() > most) candidates.resize(most);
  for (const Candidate& one : candidates) standby.devices.push_back(one.device);
  if (!candidates.empty()) standby.why_none.clear();
  return standby;
}

}  // namespace

std::vector<StandbyRails> choose_standby_rails(const topology::RailDecision& decision,
                                               const std::vector<DeviceFacts>& devices,
                                               size_t most) {
  const Chooser chooser(decision, devices);
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

}  // namespace gdr::plugin
