#include "tools/topo/json_values.h"
#include "tools/topo/nccl_choice.h"

namespace gdr::tools::topo {
namespace {

using topology::nccl::Prediction;
using topology::nccl::Route;
using topology::nccl::Settings;

Json path_or_null(const std::optional<PathClass>& path) {
  return path ? Json(to_string(*path)) : Json(nullptr);
}

Json settings_json(const Settings& settings) {
  return {{"gdr_level", path_or_null(settings.gdr_level)},
          {"gdr_read", index_or_null(settings.gdr_read)},
          {"gdr_c2c", value_or_null(settings.gdr_c2c)},
          {"gdr_mlopart", settings.gdr_mlopart},
          {"pxn_disable", settings.pxn_disable},
          {"pxn_c2c", value_or_null(settings.pxn_c2c)},
          {"p2p_level", path_or_null(settings.p2p_level)},
          {"nvb_disable", settings.nvb_disable},
          {"netdevs_policy", policy_text(settings.net_devices)}};
}

Json device_json(const RailDecision& decision, size_t device) {
  const PortRef port = decision.prediction.devices()[device];
  const int position = rail_of(decision.plan, port);
  return {{"device", device},
          {"hca", port.hca},
          {"port", port_label(decision.machine, port)},
          {"rail", position < 0 ? Json(nullptr) : Json(decision.plan.rails[position].id)},
          {"local_gpu", index_or_null(decision.prediction.local_gpu(device))}};
}

Json direction_json(const Route& route, const Verdict& verdict) {
  Json json = {
      {"path", nullptr}, {"gb_per_s", nullptr}, {"hops", nullptr}, {"through_gpu", nullptr}};
  if (route.exists) {
    json["path"] = to_string(route.path);
    json["gb_per_s"] = number_or_null(route.gb_per_s);
    json["hops"] = number_or_null(route.hops);
    json["through_gpu"] = index_or_null(route.through_gpu);
  }
  json["distance"] = route.exists ? Json(to_string(verdict.distance)) : Json(nullptr);
  json["direct"] = verdict.direct;
  json["over_pcie"] = verdict.over_pcie;
  json["too_far"] = verdict.too_far;
  json["reason"] = verdict.reason;
  return json;
}

Json pair_json(const Prediction& prediction, size_t gpu, size_t device) {
  const Verdicts verdicts = prediction.verdicts(gpu, device);
  return {{"device", device},
          {"receive", direction_json(prediction.device_to_gpu(device, gpu), verdicts.receive)},
          {"send", direction_json(prediction.gpu_to_device(gpu, device), verdicts.send)}};
}

Json gpu_choice_json(const Prediction& prediction, size_t gpu) {
  return {{"gpu", gpu},
          {"devices", prediction.devices_of_gpu(gpu)},
          {"to_devices", array_of(prediction.devices().size(), [&](size_t device) {
             return pair_json(prediction, gpu, device);
           })}};
}

}  // namespace

Json nccl_json(const RailDecision& decision) {
  const Prediction& prediction = decision.prediction;
  const size_t gpus = prediction.devices().empty() ? 0 : decision.machine.gpus.size();
  Json json;
  json["release"] = prediction.settings().release.to_string();
  json["settings"] = settings_json(prediction.settings());
  json["failure"] = text_or_null(prediction.failure());
  json["assumptions"] = prediction.assumptions();
  json["devices"] =
      array_of(prediction.devices().size(), [&](size_t i) { return device_json(decision, i); });
  json["gpus"] = array_of(gpus, [&](size_t i) { return gpu_choice_json(prediction, i); });
  return json;
}

}  // namespace gdr::tools::topo
