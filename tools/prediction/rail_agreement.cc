#include "tools/prediction/rail_agreement.h"

#include <algorithm>
#include <cstdio>

#include "topology/grouping.h"

namespace gdr::topology {
namespace {

using nccl::NetDevicesPolicy;
using nccl::Prediction;

std::vector<size_t> sorted(std::vector<size_t> devices) {
  std::sort(devices.begin(), devices.end());
  return devices;
}

bool follows(const Prediction& prediction, size_t gpu, const std::vector<size_t>& rails) {
  return sorted(prediction.devices_of_gpu(gpu)) == sorted(rails);
}

std::vector<size_t> without(const std::vector<size_t>& devices, const std::vector<size_t>& other) {
  std::vector<size_t> rest;
  for (size_t device : devices) {
    if (std::find(other.begin(), other.end(), device) == other.end()) rest.push_back(device);
  }
  return rest;
}

std::string gb_per_s(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GB/s", value);
  return text;
}

std::string name_of(const PredictedRails& decision, size_t device) {
  return port_label(decision.machine, decision.prediction.devices()[device]);
}

// Why NCCL takes `chosen` although the GPU's rail is `rail`.
std::string preference(const PredictedRails& decision, size_t gpu, size_t chosen, size_t rail) {
  const Prediction& nccl = decision.prediction;
  const nccl::Route& to_chosen = nccl.gpu_to_device(gpu, chosen);
  const nccl::Route& to_rail = nccl.gpu_to_device(gpu, rail);
  const std::string one = name_of(decision, chosen), other = name_of(decision, rail);
  const nccl::Verdict receive = nccl.verdict(gpu, rail, nccl::Direction::kReceive);
  if (to_chosen.gb_per_s > to_rail.gb_per_s) {
    return "NCCL prefers bandwidth to distance: " + gb_per_s(to_chosen.gb_per_s) + " to " + one +
           " over " + to_string(to_chosen.path) + ", " + gb_per_s(to_rail.gb_per_s) + " to " +
           other + " over " + to_string(to_rail.path);
  }
  if (to_chosen.path != to_rail.path) {
    return one + " is " + to_string(to_chosen.path) + " and " + other + " " +
           to_string(to_rail.path) + " to NCCL" +
           (receive.direct ? "" : ", as GPUDirect is off there: " + receive.reason);
  }
  return one + " and " + other +
         " are equally near and fast to NCCL, which then goes by the GPU's number and the order of "
         "the HCAs";
}

// What becomes of receives where NCCL takes `chosen` in place of `rail`, which it does by the path
// of sends.
std::string consequence(const PredictedRails& decision, size_t gpu, size_t chosen, size_t rail) {
  const Prediction& nccl = decision.prediction;
  const nccl::Direction direction = nccl::Direction::kReceive;
  const bool direct = nccl.verdict(gpu, chosen, direction).direct;
  const double here = nccl.device_to_gpu(chosen, gpu).gb_per_s;
  const double there = nccl.device_to_gpu(rail, gpu).gb_per_s;
  std::string text;
  if (direct != nccl.verdict(gpu, rail, direction).direct) {
    text = direct ? "; GPUDirect is possible, and not with the rail"
                  : "; GPUDirect is not possible, and is with the rail";
  }
  if (here < there) {
    text +=
        "; it receives with " + gb_per_s(here) + ", and with " + gb_per_s(there) + " from the rail";
  }
  return text;
}

std::string reason_of(const PredictedRails& decision, size_t gpu,
                      const std::vector<size_t>& rails) {
  const std::vector<size_t>& chosen = decision.prediction.devices_of_gpu(gpu);
  const std::vector<size_t> extra = without(chosen, rails), missing = without(rails, chosen);
  if (extra.empty() && chosen.empty()) return "NCCL finds no device for it";
  if (!missing.empty() && !extra.empty()) {
    return preference(decision, gpu, extra[0], missing[0]) +
           consequence(decision, gpu, extra[0], missing[0]);
  }
  if (!missing.empty()) {
    const nccl::Route& to_chosen = decision.prediction.gpu_to_device(gpu, chosen[0]);
    const nccl::Route& to_missing = decision.prediction.gpu_to_device(gpu, missing[0]);
    if (to_chosen.gb_per_s != to_missing.gb_per_s || to_chosen.path != to_missing.path) {
      return preference(decision, gpu, chosen[0], missing[0]);
    }
  }
  return "NCCL divides the HCAs that are equally near and fast among the GPUs that share them, and "
         "gives it " +
         std::to_string(chosen.size());
}

// What the GPU loses in all; "" where it loses nothing.
std::string loss_text(const RailBandwidths& bandwidths, size_t gpu) {
  if (!bandwidths.loses(gpu)) return "";
  const GpuBandwidth& one = bandwidths.of(gpu);
  return "; it gets " + gb_per_s(one.by_nccl) + " in all, and " + gb_per_s(one.by_rails) +
         " by its rails";
}

bool is_direct(const PredictedRails& decision, size_t gpu, size_t device) {
  const nccl::Verdicts verdicts = decision.prediction.verdicts(gpu, device);
  return verdicts.receive.direct && verdicts.send.direct;
}

// Whether NCCL's devices serve the GPU as well as its rails, of which it has some.
bool is_as_good(const PredictedRails& decision, const RailBandwidths& bandwidths, size_t gpu) {
  const Prediction& nccl = decision.prediction;
  const std::vector<size_t>& rails = bandwidths.rails(gpu);
  const size_t own = rails[0];
  auto path = [&](size_t device) {
    return path_between(decision, gpu, static_cast<size_t>(nccl.devices()[device].hca));
  };
  if (nccl.devices_of_gpu(gpu).empty()) return false;
  for (size_t device : without(nccl.devices_of_gpu(gpu), rails)) {
    if (!is_direct(decision, gpu, device) && is_direct(decision, gpu, own)) return false;
    // Through host memory, what is below the same CPU is equally near.
    const bool direct = is_direct(decision, gpu, device) || is_direct(decision, gpu, own);
    const PathClass nearest = direct ? PathClass::kLoc : PathClass::kPhb;
    if (std::max(path(device), nearest) > std::max(path(own), nearest)) return false;
    if (bandwidth_of(nccl, gpu, device) < bandwidth_of(nccl, gpu, own)) return false;
    if (bandwidths.users_of(device) > 1 && bandwidths.has_idle_rail(gpu)) return false;
  }
  return !bandwidths.loses(gpu);
}

// Whether NCCL serves every GPU as well as its rails would.
bool serves_all(const PredictedRails& decision) {
  const RailBandwidths bandwidths(decision);
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    if (!bandwidths.rails(gpu).empty() && !is_as_good(decision, bandwidths, gpu)) return false;
  }
  return true;
}

// The first of `helpful`, remedies with which NCCL serves every GPU well, that is one for `one`.
std::string fix_of(const std::vector<Remedy>& helpful, const Disagreement& one,
                   const std::vector<size_t>& rails) {
  for (const Remedy& remedy : helpful) {
    if (one.as_good && !follows(remedy.decision.prediction, one.gpu, rails)) continue;
    return remedy.text;
  }
  return "";
}

// Whether NCCL would use GPUDirect RDMA with a rail that is beyond the level on the real machine.
// Where no switch is visible, as in virtual machines, PHB says nothing about the distance.
bool adds_far_gpudirect(const PredictedRails& decision, const Prediction& grouped) {
  const bool is_hidden = decision.machine.switches.empty();
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    for (size_t device : rail_devices(decision, gpu)) {
      const auto hca = static_cast<size_t>(decision.prediction.devices()[device].hca);
      if (is_hidden && path_between(decision, gpu, hca) == PathClass::kPhb) continue;
      for (nccl::Direction direction : {nccl::Direction::kSend, nccl::Direction::kReceive}) {
        const bool too_far = decision.prediction.verdict(gpu, device, direction).too_far;
        if (too_far && grouped.verdict(gpu, device, direction).direct) return true;
      }
    }
  }
  return false;
}

std::string names(const Machine& machine, const std::vector<PortRef>& ports) {
  std::string text;
  for (PortRef port : ports) text += (text.empty() ? "" : ",") + port_label(machine, port);
  return text.empty() ? "none" : text;
}

// Whether NCCL uses none but the GPU's rails, and not all of them.
bool uses_only_rails(const Disagreement& one) {
  return std::all_of(one.chosen.begin(), one.chosen.end(), [&](PortRef port) {
    return std::find(one.rails.begin(), one.rails.end(), port) != one.rails.end();
  });
}

}  // namespace

std::vector<Remedy> remedies(const PredictedRails& decision) {
  std::vector<Remedy> list;
  const std::vector<PortRef>& devices = decision.prediction.devices();
  const nccl::Settings& settings = decision.prediction.settings();
  auto add = [&](const char* value, NetDevicesPolicy policy, const char* suffix = "") {
    nccl::Settings changed = settings;
    changed.net_devices = policy;
    PredictedRails with = decision;
    with.prediction = Prediction(decision.machine, devices, changed);
    list.push_back({std::string("set NCCL_NETDEVS_POLICY=") + value + suffix, std::move(with)});
  };
  if (settings.net_devices.kind != NetDevicesPolicy::Kind::kAuto) {
    add("AUTO", {NetDevicesPolicy::Kind::kAuto, 0}, ", or unset it");
  }
  add("ALL", {NetDevicesPolicy::Kind::kAll, 0});
  add("MAX:1", {NetDevicesPolicy::Kind::kMax, 1});
  PredictedRails with = decision;
  with.prediction =
      Prediction(group_under_switches(decision.machine, decision.plan), devices, settings);
  if (!adds_far_gpudirect(decision, with.prediction)) {
    list.push_back({"set NCCL_TOPO_FILE to what `nccl-gdr topo --nccl-xml --grouped` prints",
                    std::move(with)});
  }
  const RailBandwidths before(decision);
  std::erase_if(list, [&](const Remedy& one) {
    return !keeps_bandwidth(before, RailBandwidths(one.decision));
  });
  return list;
}

std::vector<Disagreement> disagreements(const PredictedRails& decision) {
  std::vector<Disagreement> found;
  std::vector<Remedy> helpful;
  const std::vector<PortRef>& ports = decision.prediction.devices();
  const RailBandwidths bandwidths(decision);
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const std::vector<size_t>& rails = bandwidths.rails(gpu);
    if (rails.empty() || follows(decision.prediction, gpu, rails)) continue;
    const std::string reason = reason_of(decision, gpu, rails) + loss_text(bandwidths, gpu);
    Disagreement one{gpu, {}, {}, reason, false, ""};
    one.as_good = is_as_good(decision, bandwidths, gpu);
    for (size_t device : rails) one.rails.push_back(ports[device]);
    for (size_t device : decision.prediction.devices_of_gpu(gpu)) {
      one.chosen.push_back(ports[device]);
    }
    if (found.empty()) {
      helpful = remedies(decision);
      std::erase_if(helpful, [](const Remedy& remedy) { return !serves_all(remedy.decision); });
    }
    one.fix = fix_of(helpful, one, rails);
    found.push_back(std::move(one));
  }
  return found;
}

std::string to_string(const Machine& machine, const Disagreement& one) {
  return "GPU" + std::to_string(one.gpu) + ": NCCL uses " + names(machine, one.chosen) +
         " where the rail is " + names(machine, one.rails) + ", as " + one.reason;
}

std::vector<std::string> sentences(const Machine& machine, const std::vector<Disagreement>& list) {
  std::vector<std::string> texts;
  std::string fewer, others;
  for (const Disagreement& one : list) {
    if (!one.as_good) {
      texts.push_back(to_string(machine, one));
      continue;
    }
    std::string& gpus = uses_only_rails(one) ? fewer : others;
    gpus += (gpus.empty() ? "GPU" : ", GPU") + std::to_string(one.gpu);
  }
  if (!fewer.empty()) {
    texts.push_back(fewer + ": NCCL uses fewer HCAs than there are rails, which give as much");
  }
  if (!others.empty()) {
    texts.push_back(others +
                    ": NCCL uses other HCAs than the rails, which are as near and as fast");
  }
  return texts;
}

}  // namespace gdr::topology
