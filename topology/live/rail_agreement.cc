#include "topology/live/rail_agreement.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "topology/grouping.h"

namespace gdr::topology {
namespace {

using nccl::NetDevicesPolicy;
using nccl::Prediction;

std::vector<size_t> sorted(std::vector<size_t> devices) {
  std::sort(devices.begin(), devices.end());
  return devices;
}

// The devices of the GPU's usable rails.
std::vector<size_t> rail_devices(const RailDecision& decision, size_t gpu) {
  std::vector<size_t> devices;
  const std::vector<PortRef>& ports = decision.prediction.devices();
  for (const Rail* rail : decision.plan.rails_of(gpu)) {
    const auto at = std::find(ports.begin(), ports.end(), rail->port);
    if (at != ports.end()) devices.push_back(static_cast<size_t>(at - ports.begin()));
  }
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

std::string name_of(const RailDecision& decision, size_t device) {
  return port_label(decision.machine, decision.prediction.devices()[device]);
}

// Why NCCL takes `chosen` although the GPU's rail is `rail`.
std::string preference(const RailDecision& decision, size_t gpu, size_t chosen, size_t rail) {
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

// What becomes of GPUDirect where NCCL takes `chosen` in place of `rail`.
std::string consequence(const RailDecision& decision, size_t gpu, size_t chosen, size_t rail) {
  const nccl::Direction direction = nccl::Direction::kReceive;
  const bool direct = decision.prediction.verdict(gpu, chosen, direction).direct;
  if (direct == decision.prediction.verdict(gpu, rail, direction).direct) return "";
  return direct ? "; GPUDirect is possible, and not with the rail"
                : "; GPUDirect is not possible, and is with the rail";
}

std::string reason_of(const RailDecision& decision, size_t gpu, const std::vector<size_t>& rails) {
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

// A setting to try, and what NCCL would do with it.
struct Remedy {
  std::string text;
  Prediction prediction;
};

std::vector<Remedy> remedies(const RailDecision& decision) {
  std::vector<Remedy> list;
  const std::vector<PortRef>& devices = decision.prediction.devices();
  auto with = [&](const std::string& text, const std::function<void(nccl::Settings*)>& change) {
    nccl::Settings settings = decision.prediction.settings();
    change(&settings);
    list.push_back({text, Prediction(decision.machine, devices, settings)});
  };
  with("set NCCL_NETDEVS_POLICY=ALL", [](nccl::Settings* settings) {
    settings->net_devices = {NetDevicesPolicy::Kind::kAll, 0};
  });
  with("set NCCL_NETDEVS_POLICY=MAX:1", [](nccl::Settings* settings) {
    settings->net_devices = {NetDevicesPolicy::Kind::kMax, 1};
  });
  const Machine grouped = group_under_switches(decision.machine, decision.plan);
  list.push_back(
      {"set GDR_NCCL_GENERATE_TOPO_FILE=1, or NCCL_TOPO_FILE to what `nccl-gdr topo "
       "--nccl-xml --grouped` prints",
       Prediction(grouped, devices, decision.prediction.settings())});
  return list;
}

std::string names(const Machine& machine, const std::vector<PortRef>& ports) {
  std::string text;
  for (PortRef port : ports) text += (text.empty() ? "" : ",") + port_label(machine, port);
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<Disagreement> disagreements(const RailDecision& decision) {
  std::vector<Disagreement> found;
  std::vector<Remedy> tried;
  const std::vector<PortRef>& ports = decision.prediction.devices();
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const std::vector<size_t> rails = rail_devices(decision, gpu);
    if (rails.empty() || follows(decision.prediction, gpu, rails)) continue;
    Disagreement one{gpu, {}, {}, reason_of(decision, gpu, rails), ""};
    for (size_t device : rails) one.rails.push_back(ports[device]);
    for (size_t device : decision.prediction.devices_of_gpu(gpu)) {
      one.chosen.push_back(ports[device]);
    }
    if (tried.empty()) tried = remedies(decision);
    for (const Remedy& remedy : tried) {
      if (one.fix.empty() && follows(remedy.prediction, gpu, rails)) one.fix = remedy.text;
    }
    found.push_back(std::move(one));
  }
  return found;
}

std::string to_string(const Machine& machine, const Disagreement& one) {
  return "GPU" + std::to_string(one.gpu) + ": NCCL uses " + names(machine, one.chosen) +
         " where the rail is " + names(machine, one.rails) + ", as " + one.reason;
}

}  // namespace gdr::topology
