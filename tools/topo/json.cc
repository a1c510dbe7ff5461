#include "tools/topo/json_values.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using topology::nccl::Prediction;
using topology::nccl::Route;
using topology::nccl::Settings;

Json verdict_json(const Verdict& verdict) {
  return {{"direct", verdict.direct}, {"reason", verdict.reason}};
}

Json gpu_rail_json(const RailDecision& decision, size_t gpu, int position) {
  const Rail& rail = decision.plan.rails[position];
  size_t hca = rail.port.hca;
  Verdicts verdicts = verdicts_between(decision, gpu, hca);
  return {{"rail", rail.id},
          {"port", port_label(decision.machine, rail.port)},
          {"path", to_string(path_between(decision, gpu, hca))},
          {"display", gpu_hca_text(decision, gpu, hca)},
          {"receive", verdict_json(verdicts.receive)},
          {"send", verdict_json(verdicts.send)}};
}

void add_rails_of_gpus(const RailDecision& decision, Json* gpus) {
  for (size_t gpu = 0; gpu < decision.plan.gpus.size(); ++gpu) {
    const std::vector<int>& rails = decision.plan.gpus[gpu].rails;
    (*gpus)[gpu]["rails"] =
        array_of(rails.size(), [&](size_t i) { return gpu_rail_json(decision, gpu, rails[i]); });
  }
}

// A matrix of `a` rows and `b` columns; `path` and `display` return one cell.
template <class Path, class Display>
Json path_json(size_t a, size_t b, Path&& path, Display&& display) {
  Json classes = array_of(
      a, [&](size_t i) { return array_of(b, [&](size_t j) { return Json(path(i, j)); }); });
  Json words = array_of(
      a, [&](size_t i) { return array_of(b, [&](size_t j) { return Json(display(i, j)); }); });
  return {{"class", std::move(classes)}, {"display", std::move(words)}};
}

Json gpu_gpu_class(const RailDecision& decision, size_t a, size_t b) {
  if (may_have_unknown_link(decision, a, b)) return nullptr;
  return to_string(decision.paths.gpu_gpu(a, b));
}

Json paths_json(const RailDecision& decision) {
  size_t gpus = decision.machine.gpus.size(), hcas = decision.machine.hcas.size();
  Json json;
  json["gpu_hca"] = path_json(
      gpus, hcas, [&](size_t i, size_t j) { return to_string(path_between(decision, i, j)); },
      [&](size_t i, size_t j) { return gpu_hca_text(decision, i, j); });
  json["gpu_gpu"] = path_json(
      gpus, gpus, [&](size_t i, size_t j) { return gpu_gpu_class(decision, i, j); },
      [&](size_t i, size_t j) { return gpu_gpu_text(decision, i, j); });
  json["hca_hca"] = path_json(
      hcas, hcas, [&](size_t i, size_t j) { return to_string(decision.paths.hca_hca(i, j)); },
      [&](size_t i, size_t j) { return hca_hca_text(decision, i, j); });
  return json;
}

// Whether GPUDirect is possible in the direction; rows are GPUs, columns HCAs.
Json gpudirect_json(const RailDecision& decision, Verdict Verdicts::*direction) {
  return array_of(decision.machine.gpus.size(), [&](size_t gpu) {
    return array_of(decision.machine.hcas.size(), [&](size_t hca) {
      return Json((verdicts_between(decision, gpu, hca).*direction).direct);
    });
  });
}

Json rail_json(const RailDecision& decision, size_t position) {
  const Rail& rail = decision.plan.rails[position];
  return {{"rail", rail.id},
          {"hca", rail.port.hca},
          {"port", port_label(decision.machine, rail.port)},
          {"usable", rail.usable},
          {"why_not", rail.usable ? Json(nullptr) : Json(rail.why_not)},
          {"gpus", gpus_of_rail(decision.plan, position)}};
}

Json excluded_json(const Machine& machine, const ExcludedPort& other) {
  return {
      {"hca", other.port.hca}, {"port", port_label(machine, other.port)}, {"reason", other.reason}};
}

Json skipped_json(const transport::SkippedPort& one) {
  return {{"kind", id_of(one.kind)}, {"port", text_or_null(one.port)}, {"reason", one.reason}};
}

Json finding_json(const Finding& finding) {
  const char* severity = finding.severity == Severity::kInfo      ? "info"
                         : finding.severity == Severity::kWarning ? "warning"
                                                                  : "error";
  return {{"kind", id_of(finding.kind)},
          {"severity", severity},
          {"subject", text_or_null(finding.subject)},
          {"text", finding.text},
          {"fix", text_or_null(finding.fix)}};
}

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

// The value of the key "nccl": what NCCL core will decide.
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

}  // namespace

std::string json_text(const RailDecision& decision,
                      const std::vector<transport::SkippedPort>& not_offered) {
  const Machine& machine = decision.machine;
  const RailPlan& plan = decision.plan;
  Json root;
  root["schema_version"] = kJsonSchemaVersion;
  add_machine(machine, &root);
  add_rails_of_gpus(decision, &root["gpus"]);
  root["paths"] = paths_json(decision);
  root["gpudirect"] = {{"receive", gpudirect_json(decision, &Verdicts::receive)},
                       {"send", gpudirect_json(decision, &Verdicts::send)}};
  root["rails"] = array_of(plan.rails.size(), [&](size_t i) { return rail_json(decision, i); });
  root["excluded_ports"] = array_of(
      plan.excluded.size(), [&](size_t i) { return excluded_json(machine, plan.excluded[i]); });
  root["not_offered"] =
      array_of(not_offered.size(), [&](size_t i) { return skipped_json(not_offered[i]); });
  root["nccl"] = nccl_json(decision);
  root["findings"] = array_of(decision.findings.size(),
                              [&](size_t i) { return finding_json(decision.findings[i]); });
  // Names come from files and may hold bytes that are not UTF-8.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gdr::tools::topo
