#include "tests/unit/tools/prediction/oracle/differential.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <pugixml.hpp>

#include "tests/unit/tools/prediction/oracle/nccl_rules.h"
#include "tools/prediction/prediction.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology::oracle {
namespace {

using nccl::Prediction;

std::string text_of(const AnsweredRoute& route) {
  if (route.type < 0 || route.type >= kPathClasses) return "no route";
  std::string text =
      fmt::format("{} {:.4f} GB/s {} hops", to_string(static_cast<PathClass>(route.type)),
                  route.gb_per_s, route.hops);
  if (route.through >= 0) text += fmt::format(" through GPU{}", route.through);
  return text;
}

AnsweredRoute as_answered(const nccl::Route& route) {
  return AnsweredRoute{route.exists ? static_cast<int>(route.path) : kPathClasses,
                       static_cast<float>(route.gb_per_s), route.hops, route.through_gpu};
}

bool same(const AnsweredRoute& a, const AnsweredRoute& b) {
  const bool none = a.type >= kPathClasses && b.type >= kPathClasses;
  return none || (a.type == b.type && a.hops == b.hops && a.through == b.through &&
                  std::abs(a.gb_per_s - b.gb_per_s) < 1e-3);
}

// Returns the ports that the file has a <net> for, by its `dev`.
std::vector<PortRef> devices_of(const Machine& machine, const std::string& text) {
  std::map<std::pair<std::string, int>, int> devs;
  pugi::xml_document document;
  document.load_string(text.c_str());
  for (const pugi::xpath_node& found : document.select_nodes("//net[@dev]")) {
    const pugi::xml_node net = found.node();
    devs[{net.attribute("name").value(), net.attribute("port").as_int(1)}] =
        net.attribute("dev").as_int();
  }
  std::map<int, PortRef> by_dev;
  for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
    for (size_t port = 0; port < machine.hcas[hca].ports.size(); ++port) {
      const auto found = devs.find({machine.hcas[hca].name, machine.hcas[hca].ports[port].number});
      if (found == devs.end()) continue;
      by_dev[found->second] = PortRef{static_cast<int>(hca), static_cast<int>(port)};
    }
  }
  std::vector<PortRef> devices;
  for (const auto& [dev, port] : by_dev) devices.push_back(port);
  return devices;
}

class Comparer {
 public:
  Comparer(const Prediction& prediction, const Answer& answer, std::vector<std::string>* out)
      : prediction_(prediction), answer_(answer), out_(*out) {}

  void run() {
    const size_t gpus = answer_.gpu_to_gpu.size();
    const size_t devices = answer_.local_gpus.size();
    for (size_t a = 0; a < gpus; ++a) {
      for (size_t b = 0; b < gpus; ++b) {
        if (a == b) continue;
        routes(fmt::format("GPU{} -> GPU{}", a, b), prediction_.gpu_to_gpu(a, b),
               answer_.gpu_to_gpu[a][b]);
      }
      for (size_t device = 0; device < devices; ++device) compare_pair(a, device);
      if (devices > 0) compare_used(a);
    }
    for (size_t device = 0; device < devices; ++device) {
      if (prediction_.local_gpu(device) == answer_.local_gpus[device]) continue;
      out_.push_back(fmt::format("device {}: predicted local GPU {}, expected {}", device,
                                 prediction_.local_gpu(device), answer_.local_gpus[device]));
    }
  }

 private:
  void routes(const std::string& pair, const nccl::Route& predicted,
              const AnsweredRoute& expected) {
    const AnsweredRoute got = as_answered(predicted);
    if (same(got, expected)) return;
    out_.push_back(
        fmt::format("{}: predicted {}, expected {}", pair, text_of(got), text_of(expected)));
  }

  void compare_pair(size_t gpu, size_t device) {
    routes(fmt::format("GPU{} -> device {}", gpu, device), prediction_.gpu_to_device(gpu, device),
           answer_.gpu_to_device[gpu][device]);
    routes(fmt::format("device {} -> GPU{}", device, gpu), prediction_.device_to_gpu(device, gpu),
           answer_.device_to_gpu[device][gpu]);
    const nccl::Verdicts verdicts = prediction_.verdicts(gpu, device);
    const AnsweredModes& modes = answer_.modes[gpu][device];
    verdict(gpu, device, "receive", verdicts.receive, modes.receive);
    verdict(gpu, device, "send", verdicts.send, modes.send);
  }

  void verdict(size_t gpu, size_t device, const char* direction, const nccl::Verdict& verdict,
               int expected) {
    static constexpr const char* kNames[] = {"no GPUDirect", "GPUDirect", "GPUDirect over PCIe"};
    const int got = !verdict.direct ? 0 : verdict.over_pcie ? 2 : 1;
    if (got == expected) return;
    out_.push_back(fmt::format("GPU{} and device {}, {}: predicted {} ({}), expected {}", gpu,
                               device, direction, kNames[got], verdict.reason, kNames[expected]));
  }

  void compare_used(size_t gpu) {
    const std::vector<size_t>& used = prediction_.devices_of_gpu(gpu);
    const std::vector<int>& expected = answer_.used[gpu];
    std::vector<int> got;
    for (size_t channel = 0; channel < expected.size(); ++channel) {
      got.push_back(used.empty() ? -1 : static_cast<int>(used[channel % used.size()]));
    }
    if (got == expected) return;
    out_.push_back(fmt::format("GPU{} per channel: predicted devices {}, expected {}", gpu,
                               fmt::join(got, " "), fmt::join(expected, " ")));
  }

  const Prediction& prediction_;
  const Answer& answer_;
  std::vector<std::string>& out_;
};

}  // namespace

Comparison compare(const std::string& file_text, const nccl::Settings& settings) {
  Comparison result;
  const Result<Machine> machine = nccl_xml_text(file_text);
  if (!machine) {
    result.left_out = "the file is refused: " + machine.error().text;
    return result;
  }
  const Answer answer = ask(file_text, settings);
  const Prediction prediction(*machine, devices_of(*machine, file_text), settings);
  result.compared = true;
  if (answer.failure.empty() != prediction.failure().empty()) {
    result.differences.push_back(fmt::format("predicted failure \"{}\", expected \"{}\"",
                                             prediction.failure(), answer.failure));
  }
  if (!answer.failure.empty() || !result.differences.empty()) return result;
  Comparer(prediction, answer, &result.differences).run();
  return result;
}

}  // namespace gdr::topology::oracle
