#include "tools/topo/nccl_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace gdr::tools::topo {
namespace {

using topology::nccl::Direction;
using topology::nccl::NetDevicesPolicy;
using topology::nccl::Prediction;
using topology::nccl::Route;
using topology::nccl::Settings;

std::string device_name(const RailDecision& decision, size_t device) {
  return port_label(decision.machine, decision.prediction.devices()[device]);
}

// Returns the devices that stand for the usable rails of a GPU.
std::vector<size_t> devices_of_rails(const RailDecision& decision, size_t gpu) {
  const std::vector<PortRef>& devices = decision.prediction.devices();
  std::vector<size_t> own;
  for (const Rail* rail : decision.plan.rails_of(gpu)) {
    auto found = std::find(devices.begin(), devices.end(), rail->port);
    if (found != devices.end()) own.push_back(static_cast<size_t>(found - devices.begin()));
  }
  return own;
}

// Returns the elements of `some` that `others` lacks.
std::vector<size_t> without(const std::vector<size_t>& some, const std::vector<size_t>& others) {
  std::vector<size_t> left;
  for (size_t one : some) {
    if (std::find(others.begin(), others.end(), one) == others.end()) left.push_back(one);
  }
  return left;
}

std::string names_of(const RailDecision& decision, const std::vector<size_t>& devices) {
  std::string text;
  for (size_t device : devices) {
    text += (text.empty() ? "" : ", ") + device_name(decision, device);
  }
  return text;
}

// NCCL compares bandwidth, then the class; among equals it takes turns.
std::string reason(const Route& used, const Route& rail) {
  if (!rail.exists) return "NCCL finds no route to the rail";
  if (used.gb_per_s > rail.gb_per_s) {
    return fmt::format("it has more bandwidth ({:.3g} to {:.3g} GB/s)", used.gb_per_s,
                       rail.gb_per_s);
  }
  if (used.path < rail.path) {
    return fmt::format("it is nearer ({} to {})", to_string(used.path), to_string(rail.path));
  }
  return "to NCCL they are equally near, and it distributes GPUs among such devices by a rule of "
         "its own";
}

std::string difference(const RailDecision& decision, size_t gpu) {
  const Prediction& prediction = decision.prediction;
  const std::vector<size_t>& used = prediction.devices_of_gpu(gpu);
  const std::vector<size_t> rails = devices_of_rails(decision, gpu);
  const std::vector<size_t> other = without(used, rails);
  const std::vector<size_t> unused = without(rails, used);
  if (other.empty() && unused.empty()) return "";
  std::string text = fmt::format("GPU{}: NCCL ", gpu);
  if (other.empty()) return text + "does not use " + names_of(decision, unused);
  text += "uses " + names_of(decision, other);
  if (rails.empty()) return text + ", and the GPU has no rail";
  const size_t instead_of = unused.empty() ? rails.front() : unused.front();
  text += (unused.empty() ? " beside " : " in place of ") +
          names_of(decision, unused.empty() ? rails : unused);
  text += ": " + reason(prediction.gpu_to_device(gpu, other.front()),
                        prediction.gpu_to_device(gpu, instead_of));
  const bool direct = prediction.verdict(gpu, other.front(), Direction::kReceive).direct;
  const bool rail_direct = prediction.verdict(gpu, instead_of, Direction::kReceive).direct;
  if (direct == rail_direct) return text;
  return text + (direct ? "; GPUDirect is possible, and not with the rail"
                        : "; GPUDirect is not possible, and is with the rail");
}

}  // namespace

std::string choice_text(const RailDecision& decision, size_t gpu) {
  const Prediction& prediction = decision.prediction;
  if (prediction.devices().empty()) return "none";
  std::string text;
  for (size_t device : prediction.devices_of_gpu(gpu)) {
    text += (text.empty() ? "" : ", ") + device_name(decision, device);
    const Route& route = prediction.gpu_to_device(gpu, device);
    if (route.through_gpu >= 0) text += fmt::format(" over GPU{}", route.through_gpu);
  }
  return text.empty() ? "none" : text;
}

std::vector<std::string> differences(const RailDecision& decision) {
  std::vector<std::string> texts;
  if (decision.prediction.devices().empty()) return texts;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    std::string text = difference(decision, gpu);
    if (!text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

std::string release_text(const Settings& settings) {
  std::string text = "NCCL " + settings.release.to_string();
  auto add = [&](const char* name, const std::string& value) {
    text += fmt::format(", {}={}", name, value);
  };
  if (settings.gdr_level) add("NCCL_NET_GDR_LEVEL", to_string(*settings.gdr_level));
  if (settings.gdr_read >= 0) add("NCCL_NET_GDR_READ", std::to_string(settings.gdr_read));
  if (settings.gdr_c2c) add("NCCL_NET_GDR_C2C", *settings.gdr_c2c ? "1" : "0");
  if (settings.gdr_mlopart) add("NCCL_NET_GDR_MLOPART", "1");
  if (settings.pxn_disable) add("NCCL_PXN_DISABLE", "1");
  if (settings.pxn_c2c) add("NCCL_PXN_C2C", *settings.pxn_c2c ? "1" : "0");
  if (settings.p2p_level) add("NCCL_P2P_LEVEL", to_string(*settings.p2p_level));
  if (settings.nvb_disable) add("NCCL_NVB_DISABLE", "1");
  if (settings.net_devices.kind == NetDevicesPolicy::Kind::kAll) add("NCCL_NETDEVS_POLICY", "ALL");
  if (settings.net_devices.kind == NetDevicesPolicy::Kind::kMax) {
    add("NCCL_NETDEVS_POLICY", fmt::format("MAX:{}", settings.net_devices.max));
  }
  return text;
}

}  // namespace gdr::tools::topo
