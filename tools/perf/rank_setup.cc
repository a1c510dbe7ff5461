#include "tools/perf/rank_setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "tools/common/nccl_logger.h"
#include "tools/common/output.h"
#include "tools/common/sizes.h"
#include "tools/net/plugin_loader.h"

namespace gdr::tools {
namespace {
using nlohmann::json;

Result<NetProperties> properties_of(Net& net, int dev) {
  NetProperties props;
  const abi::ncclResult_t result = net.properties(dev, &props);
  if (result == abi::ncclSuccess) return props;
  return fail(Code::kSystem, fmt::format("getProperties({}): {}", dev, describe(result)));
}

json describe_device(int index, const NetProperties& props) {
  return {{"index", index},
          {"name", props.name == nullptr ? "?" : props.name},
          {"pci", props.pci_path == nullptr ? json() : json(props.pci_path)},
          {"speed_mbps", props.speed_mbps},
          {"port", props.port},
          {"guid", fmt::format("0x{:016x}", props.guid)},
          {"ptr_support", ptr_support_text(props.pointer_support)},
          {"latency_us", props.latency_us},
          {"max_comms", props.max_comms},
          {"max_recvs", props.max_recvs}};
}

Result<json> list_devices(Net& net, const std::string& command) {
  auto count = count_devices(net, command);
  if (!count) return forward_error(count);
  json devices = json::array();
  for (int i = 0; i < *count; ++i) {
    auto props = properties_of(net, i);
    if (!props) return forward_error(props);
    devices.push_back(describe_device(i, *props));
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
  fmt::print("# plugin {} ({}), table v{}\n", description["plugin"]["name"].get<std::string>(),
             description["plugin"]["file"].get<std::string>(),
             description["plugin"]["table"].get<int>());
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
  print_now("");
}

Result<NetContext> init(Net& net, const PerfOptions& options) {
  InitArguments settings;
  settings.logger = &nccl_logger;
  settings.id = options.seed;  // the same on all ranks
  auto context = init_plugin(net, settings, options.command);
  if (!context) return forward_error(context);
  return NetContext(&net, Finalize{*context});
}

// Merges the device first where its name has several parts.
Result<int> choose_device(Net& net, int rank, const PerfOptions& options, int count) {
  if (options.devices.empty()) return rank % count;
  return find_device(net, options.devices[rank % options.devices.size()]);
}

// Checks the run against what the table and the device can carry.
Status check_limits(const RankSetup& setup, const PerfOptions& options, int devices,
                    size_t largest_message) {
  for (int rail : options.rails) {
    if (rail < devices) continue;
    return fail(Code::kInvalidUsage,
                fmt::format("--rails {}: the plugin has devices 0..{}", rail, devices - 1));
  }
  const Contract contract = setup.net().contract();
  if (options.depth > static_cast<size_t>(contract.max_requests)) {
    return fail(Code::kInvalidUsage,
                fmt::format("--depth {}: version {} of the table has at most {} requests",
                            options.depth, contract.version, contract.max_requests));
  }
  auto props = properties_of(setup.net(), setup.dev);
  if (!props) return forward_error(props);
  size_t most = std::min(contract.largest_message, props->max_p2p_bytes);
  if (largest_message <= most) return {};
  return fail(
      Code::kInvalidUsage,
      fmt::format("messages of {}: version {} of the table carries up to {} to device {}",
                  human_bytes(largest_message), contract.version, human_bytes(most), setup.dev));
}

// Chooses how to register by the properties of the rank's own device and GPU, as NCCL does for each
// connection.
Result<RegisteredBy> choose_registration(const RankSetup& setup) {
  if (setup.memory.gpu() == nullptr) return RegisteredBy::kHostAddress;
  auto props = properties_of(setup.net(), setup.dev);
  if (!props) return forward_error(props);
  bool exports = setup.memory.exports_dmabuf() && setup.net().has(NetEntry::kRegMrDmaBuf);
  const char* name = props->name == nullptr ? "?" : props->name;
  auto by = choose_for_cuda(fmt::format("device {} {}", setup.dev, name), props->pointer_support,
                            exports);
  if (!by) {
    by.error().text = fmt::format("--memory {}: {}", setup.memory.text(), by.error().text);
  }
  return by;
}

// Opens what one rank needs without the others.
Result<RankSetup> open_alone(Rank& rank, const PerfOptions& options, size_t largest_message) {
  rank.board().set_state("opening the memory");
  auto memory = RankMemory::open(spec_of(rank.rank(), options.memory), rank.rank());
  if (!memory) return forward_error(memory);
  rank.board().set_state("loading the plugin");
  auto plugin = Plugin::load(options.plugin, options.table);
  if (!plugin) return forward_error(plugin);
  auto context = init(plugin->net(), options);
  if (!context) return forward_error(context);
  RankSetup setup{std::move(*plugin), std::move(*context),        0,
                  std::move(*memory), RegisteredBy::kHostAddress, {}};
  auto count = count_devices(setup.net(), options.command);
  if (!count) return forward_error(count);
  auto dev = choose_device(setup.net(), rank.rank(), options, *count);
  if (!dev) return forward_error(dev);
  setup.dev = *dev;
  set_logger_device(*dev);
  if (Status fits = check_limits(setup, options, *count, largest_message); !fits) {
    return forward_error(fits);
  }
  auto by = choose_registration(setup);
  if (!by) return forward_error(by);
  setup.registered_by = *by;
  return setup;
}

// Rank 0 opens first: what keeps a run from starting is the same for all ranks of a machine, and is
// printed once then.
Result<RankSetup> open_in_turn(Rank& rank, const PerfOptions& options, size_t largest_message) {
  constexpr char kStep[] = "rank 0 loads the plugin";
  if (rank.rank() != 0) {
    if (Status done = rank.barrier(kStep); !done) {
      // On this machine, rank 0 has given the reason.
      return options.root.empty() ? fail(done.error().code, "") : forward_error(done);
    }
  }
  auto setup = open_alone(rank, options, largest_message);
  if (!setup || rank.rank() != 0) return setup;
  if (Status done = rank.barrier(kStep); !done) return forward_error(done);
  return setup;
}
}  // namespace

Result<RankSetup> set_up_rank(Rank& rank, const PerfOptions& options, size_t largest_message) {
  auto setup = open_in_turn(rank, options, largest_message);
  if (!setup) return setup;
  // Listed when device `dev` exists, which may be one that the plugin has made.
  auto devices = list_devices(setup->net(), options.command);
  if (!devices) return forward_error(devices);
  json mine = {{"rank", rank.rank()},
               {"pid", getpid()},
               {"host", host_name()},
               {"device", setup->dev},
               {"device_name", (*devices)[setup->dev]["name"]},
               {"memory", setup->memory.text()},
               {"registered_by", describe(setup->registered_by)}};
  auto all = rank.allgather("plugin loaded", mine.dump());
  if (!all) return forward_error(all);
  if (rank.rank() != 0) return setup;
  json& description = setup->description;
  description["plugin"] = {{"name", setup->net().name()},
                           {"file", setup->plugin.file()},
                           {"table", setup->net().version()}};
  description["devices"] = std::move(*devices);
  for (const std::string& text : *all) description["ranks"].push_back(json::parse(text));
  if (!options.quiet) print_description(description, options.rails);
  return setup;
}

void Measurement::print(const std::string& line) const {
  if (rank_.rank() != 0 || options_.quiet) return;
  if (is_stderr_terminal()) std::fputs(kClearLine, stderr);
  ++rank_.board().lines;
  print_now(line + "\n");
}

size_t Measurement::iterations(size_t bytes, size_t budget_bytes, size_t least, size_t most) const {
  return options_.iterations > 0 ? options_.iterations
                                 : default_iterations(bytes, budget_bytes, least, most);
}

void Measurement::write_report(const json& results) const {
  if (options_.json.empty()) return;
  json report = setup_.description;
  report.update(results);
  report["checked"] = options_.check;
  write_output(options_.json, report.dump(2) + "\n");
}

int run_measurement(Rank& rank, const PerfOptions& options, size_t largest_message,
                    const std::function<Result<uint64_t>(RankSetup)>& measure) {
  auto setup = set_up_rank(rank, options, largest_message);
  if (!setup) {
    rank.board().set_report(setup.error().text);
    if (setup.error().text.empty()) return kExitFailed;
    return setup.error().code == Code::kInvalidUsage ? kExitUsage : kExitCouldNotRun;
  }
  auto wrong = measure(std::move(*setup));
  if (!wrong) rank.board().set_report(wrong.error().text);
  return wrong && *wrong == 0 ? kExitOk : kExitFailed;
}

}  // namespace gdr::tools
