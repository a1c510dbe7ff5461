#include "tools/perf/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iostream>

#include "tools/common/nccl_logger.h"
#include "tools/perf/cpu_place.h"

namespace gdr::tools {
namespace {
using nlohmann::json;

Result<json> list_devices(const abi::ncclNet_v8_t& net) {
  int count = 0;
  abi::ncclResult_t result = net.devices(&count);
  if (result != abi::ncclSuccess || count <= 0) {
    return fail(Code::kSystem,
                fmt::format("the plugin \"{}\" offers no device ({}); NCCL_DEBUG=INFO "
                            "shows why",
                            net.name, describe(result)));
  }
  json devices = json::array();
  for (int i = 0; i < count; ++i) {
    abi::ncclNetProperties_v8_t props{};
    result = net.getProperties(i, &props);
    if (result != abi::ncclSuccess) {
      return fail(Code::kSystem, fmt::format("getProperties({}): {}", i, describe(result)));
    }
    devices.push_back(describe_device(i, props));
  }
  return devices;
}

void print_description(const json& description) {
  fmt::print("# plugin {} ({}), table v8\n", description["plugin"]["name"].get<std::string>(),
             description["plugin"]["file"].get<std::string>());
  for (const json& device : description["devices"]) {
    fmt::print("# device {:2} {} pci {} speed {} Mb/s port {} guid {} ptr {} max_recvs {}\n",
               device["index"].get<int>(), device["name"].get<std::string>(),
               device["pci"].is_null() ? "-" : device["pci"].get<std::string>(),
               device["speed_mbps"].get<int>(), device["port"].get<int>(),
               device["guid"].get<std::string>(), device["ptr_support"].get<std::string>(),
               device["max_recvs"].get<int>());
  }
  for (const json& rank : description["ranks"]) {
    fmt::print("# rank {:2} pid {} host {} uses device {} {}\n", rank["rank"].get<int>(),
               rank["pid"].get<int>(), rank["host"].get<std::string>(), rank["device"].get<int>(),
               rank["device_name"].get<std::string>());
  }
  std::fflush(stdout);
}
}  // namespace

std::string ptr_support_text(int bits) {
  std::string text;
  auto add = [&](int bit, const char* name) {
    if ((bits & bit) == 0) return;
    if (!text.empty()) text += '|';
    text += name;
  };
  add(abi::kPtrHost, "HOST");
  add(abi::kPtrCuda, "CUDA");
  add(abi::kPtrDmaBuf, "DMABUF");
  return text.empty() ? "none" : text;
}

json describe_device(int index, const abi::ncclNetProperties_v8_t& props) {
  return {{"index", index},
          {"name", props.name == nullptr ? "?" : props.name},
          {"pci", props.pciPath == nullptr ? json() : json(props.pciPath)},
          {"speed_mbps", props.speed},
          {"port", props.port},
          {"guid", fmt::format("0x{:016x}", props.guid)},
          {"ptr_support", ptr_support_text(props.ptrSupport)},
          {"latency_us", props.latency},
          {"max_comms", props.maxComms},
          {"max_recvs", props.maxRecvs}};
}

Result<PerfEnvironment> open_environment(Rank& rank, const PerfOptions& options, bool quiet) {
  rank.board().set_state("loading the plugin");
  auto plugin = Plugin::load(options.plugin);
  if (!plugin) return forward_error(plugin);
  abi::ncclResult_t result = plugin->net().init(&nccl_logger);
  if (result != abi::ncclSuccess) {
    return fail(Code::kSystem,
                fmt::format("init of the plugin \"{}\": {}; NCCL_DEBUG=WARN shows why",
                            plugin->net().name, describe(result)));
  }
  auto devices = list_devices(plugin->net());
  if (!devices) return forward_error(devices);
  int count = static_cast<int>(devices->size());
  int dev = options.devices.empty() ? rank.rank() % count
                                    : options.devices[rank.rank() % options.devices.size()];
  if (dev < 0 || dev >= count) {
    return fail(Code::kInvalidUsage,
                fmt::format("--dev {}: the plugin has devices 0..{}", dev, count - 1));
  }
  set_logger_device(dev);
  json mine = {{"rank", rank.rank()},
               {"pid", getpid()},
               {"host", host_name()},
               {"device", dev},
               {"device_name", (*devices)[dev]["name"]}};
  auto all = rank.allgather("plugin loaded", mine.dump());
  if (!all) return forward_error(all);
  int cpu = -1;
  if (options.bind) {
    auto chosen = agree_on_cpu(rank);
    if (!chosen) return forward_error(chosen);
    cpu = *chosen;
  }
  PerfEnvironment environment{std::move(*plugin), dev, cpu, {}};
  if (rank.rank() != 0) return environment;
  json& description = environment.description;
  description["plugin"] = {
      {"name", environment.net().name}, {"file", environment.plugin.file()}, {"table", 8}};
  description["devices"] = std::move(*devices);
  for (const std::string& text : *all) description["ranks"].push_back(json::parse(text));
  if (!quiet) print_description(description);
  return environment;
}

Status write_json(const std::string& file, const json& value) {
  std::string text = value.dump(2) + "\n";
  if (file == "-") {
    std::cout << text << std::flush;
    return {};
  }
  std::ofstream out(file);
  out << text << std::flush;
  if (!out) return fail_errno(Code::kSystem, "cannot write " + file, errno);
  return {};
}

}  // namespace gdr::tools
