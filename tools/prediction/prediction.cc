#include "tools/prediction/prediction.h"

#include <utility>

#include "tools/prediction/graph.h"
#include "tools/prediction/routing.h"

namespace gdr::topology::nccl {
namespace {

Route to_route(const Path& path) {
  return {path.path_class, path.exists, path.gb_per_s, path.hops, -1};
}

int index_of(const Graph& graph, int node) { return graph.nodes[static_cast<size_t>(node)].index; }

size_t position(const Graph& graph, int node) { return static_cast<size_t>(index_of(graph, node)); }

}  // namespace

std::string to_string(const Verdict& verdict) {
  return (verdict.direct ? "yes: " : "no: ") + verdict.reason;
}

Prediction::Prediction(const Machine& machine, std::vector<PortRef> devices,
                       const Settings& settings)
    : settings_(settings),
      rules_(Rules::of(settings.release)),
      devices_(std::move(devices)),
      gpus_(machine.gpus.size()),
      from_file_(machine.nccl_file),
      gpu_gpu_(gpus_ * gpus_),
      to_device_(gpus_ * devices_.size()),
      from_device_(gpus_ * devices_.size()),
      local_gpus_(devices_.size(), -1),
      used_(gpus_) {
  GdrCheck unknown;
  unknown.why = GdrCheck::Why::kNoRoute;
  checks_.assign(gpus_ * devices_.size(), Checks{unknown, unknown});
  for (PortRef port : devices_) device_names_.push_back(hca_of(machine, port).name);
  GraphNotes notes;
  const Graph graph = build_graph(machine, devices_, rules_, &notes);
  Routing routing(machine, devices_, graph, rules_, settings_);
  failure_ = notes.failure.empty() ? routing.failure() : notes.failure;
  assumptions_ = std::move(notes.assumptions);
  take_routes(graph, &routing);
}

void Prediction::take_routes(const Graph& graph, Routing* routing) {
  for (int gpu : graph.gpus) take_gpu(graph, gpu, routing);
  for (int device : graph.nets) take_device(graph, device, routing);
}

void Prediction::take_gpu(const Graph& graph, int gpu, Routing* routing) {
  const size_t from = position(graph, gpu);
  for (int other : graph.gpus) {
    gpu_gpu_[from * gpus_ + position(graph, other)] =
        to_route(routing->paths().between(gpu, other));
  }
  if (graph.nets.empty()) return;
  for (int device : routing->local_devices().devices_of_gpu(gpu)) {
    used_[from].push_back(position(graph, device));
  }
}

void Prediction::take_device(const Graph& graph, int device, Routing* routing) {
  const size_t number = position(graph, device);
  const int local = routing->local_devices().local_gpu(device);
  if (local >= 0) local_gpus_[number] = index_of(graph, local);
  for (int gpu : graph.gpus) {
    const size_t pair = position(graph, gpu) * devices_.size() + number;
    const GdrCheck send = routing->check(gpu, device, Direction::kSend);
    const GdrCheck receive = routing->check(gpu, device, Direction::kReceive);
    checks_[pair] = Checks{send, receive};
    from_device_[pair] = to_route(routing->paths().between(device, gpu));
    to_device_[pair] = to_route(routing->paths().between(gpu, device));
    if (to_device_[pair].path != PathClass::kPxn) continue;
    const int intermediate = routing->intermediate_gpu(gpu, device);
    to_device_[pair].through_gpu =
        intermediate >= 0 ? index_of(graph, intermediate) : local_gpus_[number];
  }
}

int Prediction::device_of(size_t hca) const {
  for (size_t device = 0; device < devices_.size(); ++device) {
    if (static_cast<size_t>(devices_[device].hca) == hca) return static_cast<int>(device);
  }
  return -1;
}

Verdict Prediction::verdict(size_t gpu, size_t device, Direction direction) const {
  const Checks& checks = checks_[gpu * devices_.size() + device];
  const GdrCheck& check = direction == Direction::kSend ? checks.send : checks.receive;
  Verdict verdict;
  verdict.direct = check.direct;
  verdict.too_far = !check.direct && check.why == GdrCheck::Why::kDistance;
  verdict.over_pcie = check.over_pcie;
  verdict.distance = check.distance;
  verdict.reason = reason_for(check, device_names_[device], from_file_, rules_, settings_);
  return verdict;
}

Verdicts Prediction::verdicts(size_t gpu, size_t device) const {
  return {verdict(gpu, device, Direction::kSend), verdict(gpu, device, Direction::kReceive)};
}

}  // namespace gdr::topology::nccl

namespace gdr::topology {

PredictedRails predict(RailDecision decision, const nccl::Settings& settings) {
  decision.gdr_level = settings.gdr_level;
  nccl::Prediction prediction = predict(decision.machine, decision.plan, settings);
  return PredictedRails{std::move(decision), std::move(prediction)};
}

nccl::Prediction predict(const Machine& machine, const RailPlan& plan,
                         const nccl::Settings& settings) {
  return nccl::Prediction(machine, usable_ports(plan), settings);
}

PathClass path_between(const PredictedRails& decision, size_t gpu, size_t hca) {
  const int device = decision.prediction.device_of(hca);
  const bool over_c2c =
      device >= 0 &&
      decision.prediction.device_to_gpu(static_cast<size_t>(device), gpu).path == PathClass::kP2c;
  return over_c2c ? PathClass::kP2c : decision.paths.gpu_hca(gpu, hca);
}

nccl::Verdicts verdicts_between(const PredictedRails& decision, size_t gpu, size_t hca) {
  const int device = decision.prediction.device_of(hca);
  if (device >= 0) return decision.prediction.verdicts(gpu, static_cast<size_t>(device));
  const nccl::Verdict none{false, false, false,
                           decision.machine.hcas[hca].name + " is not offered to NCCL"};
  return {none, none};
}

}  // namespace gdr::topology
