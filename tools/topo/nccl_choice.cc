#include "tools/topo/nccl_choice.h"

#include <fmt/format.h>

namespace gdr::tools::topo {
namespace {

using topology::nccl::NetDevicesPolicy;
using topology::nccl::Prediction;
using topology::nccl::Route;
using topology::nccl::Settings;

std::string device_name(const RailDecision& decision, size_t device) {
  return port_label(decision.machine, decision.prediction.devices()[device]);
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

std::string policy_text(const NetDevicesPolicy& policy) {
  switch (policy.kind) {
    case NetDevicesPolicy::Kind::kAuto:
      return "AUTO";
    case NetDevicesPolicy::Kind::kAll:
      return "ALL";
    case NetDevicesPolicy::Kind::kMax:
      return fmt::format("MAX:{}", policy.max);
  }
  return "AUTO";
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
  if (settings.net_devices.kind != NetDevicesPolicy::Kind::kAuto) {
    add("NCCL_NETDEVS_POLICY", policy_text(settings.net_devices));
  }
  return text;
}

}  // namespace gdr::tools::topo
