#include "tools/perf/rank_setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tools/common/nccl_logger.h"
#include "tools/perf/cpu_affinity.h"

namespace gdr::tools {
namespace {
using nlohmann::json;

Result<json> list_devices(const abi::ncclNet_v8_t& net) {
  int count = 0;
  abi::ncclResult_t result = net.devices(&count);
  if (result != abi::ncclSuccess) {
    return fail(Code::kSystem,
                fmt::format("devices of the plugin \"{}\": {}", net.name, describe(result)));
  }
  if (count <= 0) {
    return fail(
        Code::kSystem,
        fmt::format("the plugin \"{}\" offers no device; NCCL_DEBUG=INFO shows why", net.name));
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

// Names what a rank moves data over: its device, or with --rails one for each channel.
std::string used_devices(const json& rank, const std::vector<int>& rails) {
  if (!rails.empty()) return fmt::format("devices {} in turn by channel", fmt::join(rails, ","));
  return fmt::format("device {} {}", rank["device"].get<int>(),
                     rank["device_name"].get<std::string>());
}

void print_description(const json& description, const std::vector<int>& rails) {
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
    fmt::print("# rank {:2} pid {} host {} uses {} memory {} registered by {}\n",
               rank["rank"].get<int>(), rank["pid"].get<int>(), rank["host"].get<std::string>(),
               used_devices(rank, rails), rank["memory"].get<std::string>(),
               rank["registered_by"].get<std::string>());
  }
  std::fflush(stdout);
}

Result<Plugin> start_plugin(Rank& rank, const std::string& name) {
  rank.board().set_state("loading the plugin");
  auto plugin = Plugin::load(name);
  if (!plugin) return forward_error(plugin);
  set_default_log(DefaultLog::kWarnings);
  abi::ncclResult_t result = plugin->net().init(&nccl_logger);
  if (result != abi::ncclSuccess) {
    return fail(Code::kSystem, fmt::format("init of the plugin \"{}\": {}; {}", plugin->net().name,
                                           describe(result),
                                           logs_warnings() ? "the warnings in its log say why"
                                                           : "NCCL_DEBUG=WARN shows why"));
  }
  return plugin;
}

Result<int> choose_device(int rank, const PerfOptions& options, int count) {
  int dev = options.devices.empty() ? rank % count : options.devices[rank % options.devices.size()];
  if (dev >= 0 && dev < count) return dev;
  return fail(Code::kInvalidUsage,
              fmt::format("--dev {}: the plugin has devices 0..{}", dev, count - 1));
}

// Chooses how to register by the properties of the rank's own device and GPU, as NCCL does for each
// connection.
Result<RegisteredBy> choose_registration(const RankSetup& setup) {
  if (setup.memory.gpu() == nullptr) return RegisteredBy::kHostAddress;
  abi::ncclNetProperties_v8_t props{};
  abi::ncclResult_t result = setup.net().getProperties(setup.dev, &props);
  if (result != abi::ncclSuccess) {
    return fail(Code::kSystem, fmt::format("getProperties({}): {}", setup.dev, describe(result)));
  }
  bool exports = setup.memory.exports_dmabuf() && setup.net().regMrDmaBuf != nullptr;
  const char* name = props.name == nullptr ? "?" : props.name;
  auto by =
      choose_for_cuda(fmt::format("device {} {}", setup.dev, name), props.ptrSupport, exports);
  if (!by) {
    by.error().text = fmt::format("--memory {}: {}", setup.memory.text(), by.error().text);
  }
  return by;
}
}  // namespace

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

Result<RankSetup> set_up_rank(Rank& rank, const PerfOptions& options) {
  rank.board().set_state("opening the memory");
  auto memory = RankMemory::open(spec_of(rank.rank(), options.memory), rank.rank());
  if (!memory) return forward_error(memory);
  auto plugin = start_plugin(rank, options.plugin);
  if (!plugin) return forward_error(plugin);
  RankSetup setup{std::move(*plugin), 0, std::move(*memory), RegisteredBy::kHostAddress, -1, {}};
  auto devices = list_devices(setup.net());
  if (!devices) return forward_error(devices);
  auto dev = choose_device(rank.rank(), options, static_cast<int>(devices->size()));
  if (!dev) return forward_error(dev);
  setup.dev = *dev;
  set_logger_device(*dev);
  auto by = choose_registration(setup);
  if (!by) return forward_error(by);
  setup.registered_by = *by;
  json mine = {{"rank", rank.rank()},
               {"pid", getpid()},
               {"host", host_name()},
               {"device", *dev},
               {"device_name", (*devices)[*dev]["name"]},
               {"memory", setup.memory.text()},
               {"registered_by", describe(*by)}};
  auto all = rank.allgather("plugin loaded", mine.dump());
  if (!all) return forward_error(all);
  if (options.bind) {
    auto chosen = agree_on_cpu(rank);
    if (!chosen) return forward_error(chosen);
    setup.cpu = *chosen;
  }
  if (rank.rank() != 0) return setup;
  json& description = setup.description;
  description["plugin"] = {{"name", setup.net().name}, {"file", setup.plugin.file()}, {"table", 8}};
  description["devices"] = std::move(*devices);
  for (const std::string& text : *all) description["ranks"].push_back(json::parse(text));
  if (!options.quiet) print_description(description, options.rails);
  return setup;
}

}  // namespace gdr::tools
