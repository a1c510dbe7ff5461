// C07, C09, C29: virtual devices. C08 and C09: the plugin's library is loaded anew.
#include <functional>
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {

// Skips the case where the plugin cannot merge.
void need_merging(Session& s, Net& net) {
  if (net.contract().max_merged_devices == 0) {
    s.skip(fmt::format("version {} has no makeVDevice", net.version()));
  }
  if (!net.has(NetEntry::kMakeVDevice)) s.skip("makeVDevice is null: no virtual devices");
}

// Returns the virtual device of two others.
int merge(Session& s, Net& net, int first, int second) {
  if (s.devices(net) < 2) s.skip("the plugin has one device");
  int made = -1;
  const auto result = s.call("makeVDevice", [&] {
    return net.make_v_device(&made, {2, {first, second}});
  });
  if (result != abi::ncclSuccess) {
    s.skip(fmt::format("makeVDevice of devices {} and {} returned {}", first, second,
                       describe(result)));
  }
  return made;
}

// NCCL asks only for devices that exist, but a plugin that reads its arrays with an index from
// outside corrupts itself.
void expect_refused(Session& s, const MergedDevices& merged, const char* what) {
  int before = s.devices();
  int made = -1;
  auto result = s.call("makeVDevice", [&] { return s.net().make_v_device(&made, merged); });
  s.require(result != abi::ncclSuccess, "makeVDevice of {} succeeded", what);
  s.require(s.devices() == before, "makeVDevice of {} failed and devices() grew from {} to {}",
            what, before, s.devices());
}

// NCCL takes the devices that devices() reports beyond the first count for the virtual ones, and
// finds each in the topology by its name (src/graph/topo.cc).
void check_virtual(Session& s, int made, int first, int second, int physical) {
  s.require(made == physical, "makeVDevice returned index {}; {} devices existed", made, physical);
  s.require(s.devices() == physical + 1, "devices() was {} and is {} after makeVDevice", physical,
            s.devices());
  NetProperties p = s.properties(made);
  s.require(p.merged.count == 2 && p.merged.devices[0] == first && p.merged.devices[1] == second,
            "the virtual device of {} and {} reports {} devices, the first {} and {}", first,
            second, p.merged.count, p.merged.devices[0], p.merged.devices[1]);
  s.require(p.speed_mbps > 0, "the virtual device reports speed {}", p.speed_mbps);
  std::string name = p.name == nullptr ? "" : p.name;
  for (int dev = 0; dev < physical; ++dev) {
    NetProperties other = s.properties(dev);
    s.require(name != other.name, "the virtual device has the name \"{}\" of device {}", name, dev);
    s.require(other.merged.count == 1, "device {} reports {} devices after makeVDevice", dev,
              other.merged.count);
  }
}

void virtual_devices(Session& s) {
  s.open();
  need_merging(s, s.net());
  int physical = s.devices();
  expect_refused(s, MergedDevices{0, {}}, "no devices");
  expect_refused(s, MergedDevices{2, {s.dev(), physical}}, "a device that does not exist");
  expect_refused(s, MergedDevices{2, {s.dev(), -1}}, "device -1");
  int other = s.dev() == 0 ? 1 : 0;
  int made = merge(s, s.net(), s.dev(), other);
  check_virtual(s, made, s.dev(), other, physical);
  std::vector<TestConnection> connections = open_connections(s, {{0, 0, made}, {0, 0}});
  exchange_all(s, connections, {single(1), single(100000), single(3000000), single(0)});
}

// A NIC whose second port is down is a plain device beside nodes where it is a merged one.
void merged_and_plain(Session& s) {
  s.open();
  need_merging(s, s.net());
  const int made = merge(s, s.net(), 0, 1);
  const int own = s.rank() == 0 ? made : 0;
  std::vector<TestConnection> connections = open_connections(s, {{0, 1, own}, {1, 0, own}});
  std::vector<Group> groups;
  for (size_t size : interesting_sizes(s.random(), 20)) groups.push_back(single(size));
  exchange_all(s, connections, groups);
  s.meet("all data has arrived");
}

// One life of the library: NCCL loads it for its first communicator and unloads it after the last
// one (src/plugin/net.cc, src/plugin/plugin_open.cc). Sends a message over the device that `choose`
// returns, where that is not negative.
void live_once(Session& s, uint64_t round, const std::function<int(Net&)>& choose) {
  auto plugin = Plugin::load(s.options().plugin, s.options().table);
  s.require(plugin.has_value(), "round {}: {}", round, plugin ? "" : plugin.error().text);
  Net& net = plugin->net();
  void* context = nullptr;
  s.must("init", [&] { return net.init(s.settings(), &context); });
  if (const int dev = choose(net); dev >= 0) {
    const std::string error = lone_message(net, context, dev, round, s.options().timeout_seconds);
    s.require(error.empty(), "round {}: {}", round, error);
  }
  s.must("finalize", [&] { return net.finalize(context); });
}

// A thread of the plugin that survives its library crashes as soon as it runs. The short lives find
// one that has not begun to run.
void unload_and_reload(Session& s) {
  constexpr uint64_t kRounds = 12;
  for (uint64_t round = 0; round < kRounds; ++round) {
    live_once(s, round, [&](Net& net) {
      const int count = s.devices(net);
      s.require(s.dev() < count, "round {}: devices() reports {}", round, count);
      return round % 3 == 0 ? s.dev() : -1;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// NCCL takes what devices() reports after the first init for the devices that can be merged, and
// what is added by makeVDevice for the merged ones (src/plugin/net.cc, src/graph/topo.cc). It then
// starts anew, so that a plugin whose state outlives its library must not count those of before.
void merge_after_reload(Session& s) {
  int first_count = 0;
  for (uint64_t round = 0; round < 3; ++round) {
    live_once(s, round, [&](Net& net) {
      need_merging(s, net);
      const int count = s.devices(net);
      if (round == 0) first_count = count;
      s.require(count == first_count, "round {}: devices() reports {}, and {} before any merge",
                round, count, first_count);
      const int made = merge(s, net, 0, 1);
      s.require(made == count && s.devices(net) == count + 1,
                "round {}: makeVDevice returned {} and devices() reports {}; {} existed", round,
                made, s.devices(net), count);
      return made;
    });
  }
}
}  // namespace

ConformanceCases virtual_cases() {
  return {
      {"C07-virtual-devices",
       "makeVDevice (v9) is null, or makes a usable device with a name of its own and refuses "
       "devices that do not exist",
       1, &virtual_devices},
      {"C08-unload-and-reload",
       "the library may be unloaded after the last communicator, and works when loaded again", 1,
       &unload_and_reload},
      {"C09-virtual-devices-anew",
       "after the library was loaded anew, devices() counts no virtual device of before, and "
       "makeVDevice works again",
       1, &merge_after_reload},
      {"C29-merged-and-plain",
       "a virtual device at one end and a plain one at the other carry data both ways", 2,
       &merged_and_plain},
  };
}

}  // namespace gdr::tools
