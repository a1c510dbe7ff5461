// nccl::Prediction against what NCCL's own graph code answered on committed and random machines.
// nccl_answers.json has a case a line, with the topology file of a random machine (`xml`);
// docs/nccl-choice.md says how it was made.
//
// A row is a GPU: its routes to all GPUs, and to and from all devices, each as class, bandwidth in
// GB/s and number of links ("PIX24/4"); then ">2" where PXN leads over GPU2, "+" for GPUDirect, "*"
// for GPUDirect over PCIe beside C2C. "-" is no route. `local` has the GPU of each device, and
// `used` the devices of each GPU in the first eight channels.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plugin/config/load.h"
#include "tools/inspection/inspect_settings.h"
#include "tools/prediction/prediction.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology::nccl {
namespace {

using Json = nlohmann::json;

constexpr size_t kChannels = 8;

std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::string machine_text(const Json& answer) {
  if (answer.contains("xml")) return answer["xml"];
  return text_of(GDR_TOPOLOGIES "/" + answer["machine"].get<std::string>());
}

Settings settings_of(const Json& answer) {
  config::Environment environment;
  std::istringstream words(answer["env"].get<std::string>());
  for (std::string word; words >> word;) {
    environment[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  Findings findings;
  const config::Options options = config::load(environment, &findings);
  Settings settings = tools::topo::nccl_settings(environment, options, &findings);
  EXPECT_TRUE(findings.empty());
  settings.release = Release::parse(answer["nccl"].get<std::string>()).value();
  return settings;
}

// Returns the ports that the file has a <net> for, by its `dev`.
std::vector<PortRef> devices_of(const Machine& machine) {
  std::map<int, PortRef> by_dev;
  for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
    for (size_t port = 0; port < machine.hcas[hca].ports.size(); ++port) {
      by_dev[machine.hcas[hca].ports[port].dev] = {static_cast<int>(hca), static_cast<int>(port)};
    }
  }
  by_dev.erase(-1);
  std::vector<PortRef> devices;
  for (const auto& [dev, port] : by_dev) devices.push_back(port);
  return devices;
}

std::string number_text(double number) {
  std::string text = fmt::format("{:.2f}", number);
  text.resize(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string route_text(const Route& route) {
  if (!route.exists) return "-";
  const std::string text =
      fmt::format("{}{}/{}", to_string(route.path), number_text(route.gb_per_s), route.hops);
  return route.path == PathClass::kPxn ? text + fmt::format(">{}", route.through_gpu) : text;
}

std::string mode_text(const Verdict& verdict) {
  if (!verdict.direct) return "";
  return verdict.over_pcie ? "*" : "+";
}

// Returns text(0) to text(count - 1) in a row.
template <class Text>
std::string row(size_t count, const Text& text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < count; ++i) words.push_back(text(i));
  return fmt::format("{}", fmt::join(words, " "));
}

// Returns the prediction in the form of the answers.
Json predicted(const Prediction& nccl, size_t gpus) {
  const size_t devices = nccl.devices().size();
  Json made = {{"gpus", Json::array()},
               {"send", Json::array()},
               {"receive", Json::array()},
               {"used", Json::array()}};
  made["local"] = row(devices, [&](size_t i) { return std::to_string(nccl.local_gpu(i)); });
  for (size_t gpu = 0; gpu < gpus; ++gpu) {
    made["gpus"].push_back(
        row(gpus, [&](size_t i) { return i == gpu ? "." : route_text(nccl.gpu_to_gpu(gpu, i)); }));
    made["send"].push_back(row(devices, [&](size_t i) {
      return route_text(nccl.gpu_to_device(gpu, i)) + mode_text(nccl.verdicts(gpu, i).send);
    }));
    made["receive"].push_back(row(devices, [&](size_t i) {
      return route_text(nccl.device_to_gpu(i, gpu)) + mode_text(nccl.verdicts(gpu, i).receive);
    }));
    const std::vector<size_t>& used = nccl.devices_of_gpu(gpu);
    if (used.empty()) continue;
    made["used"].push_back(
        row(kChannels, [&](size_t i) { return std::to_string(used[i % used.size()]); }));
  }
  return made;
}

TEST(NcclAnswers, EveryCase_IsPredicted) {
  const Json answers = Json::parse(text_of(GDR_NCCL_ANSWERS));
  ASSERT_GT(answers.size(), 150u);
  for (const Json& answer : answers) {
    SCOPED_TRACE(fmt::format("{}, NCCL {}, {}", answer["machine"].get<std::string>(),
                             answer["nccl"].get<std::string>(), answer["env"].get<std::string>()));
    const std::string text = machine_text(answer);
    const Result<Machine> machine = nccl_xml_text(text);
    ASSERT_TRUE(machine) << machine.error().text;
    const Prediction nccl(*machine, devices_of(*machine), settings_of(answer));
    EXPECT_EQ(nccl.failure().empty(), !answer.contains("failure")) << nccl.failure();
    if (answer.contains("failure") || !nccl.failure().empty()) continue;
    const Json made = predicted(nccl, machine->gpus.size());
    for (const auto& [part, rows] : made.items()) EXPECT_EQ(rows, answer[part]) << part;
  }
}

}  // namespace
}  // namespace gdr::topology::nccl
