// C09 and C29: virtual devices after the library was loaded anew, and at one end of a connection.
#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"
#include "tools/conformance/lone_message.h"

namespace gdr::tools {
namespace {

// Ends the case where the plugin cannot merge.
void require_merging(Session& s, Net& net, int count) {
  if (net.contract().max_merged_devices == 0) {
    s.skip(fmt::format("version {} has no makeVDevice", net.version()));
  }
  if (!net.has(NetEntry::kMakeVDevice)) s.skip("makeVDevice is null: no virtual devices");
  if (count < 2) s.skip("the plugin has one device");
}

int merge_first_two(Session& s, Net& net) {
  int made = -1;
  const auto result = s.call("makeVDevice", [&] { return net.make_v_device(&made, {2, {0, 1}}); });
  if (result != abi::ncclSuccess) {
    s.skip(fmt::format("makeVDevice of devices 0 and 1 returned {}", describe(result)));
  }
  return made;
}

int count_of(Session& s, Net& net) {
  int count = 0;
  s.must("devices", [&] { return net.devices(&count); });
  return count;
}

// NCCL takes what devices() reports after the first init for the devices that can be merged, and
// what is added by makeVDevice for the merged ones (src/plugin/net.cc, src/graph/topo.cc). It then
// starts anew, so that a plugin whose state outlives its library must not count those of before.
void loaded_anew(Session& s) {
  int first_count = 0;
  for (uint64_t round = 0; round < 3; ++round) {
    auto plugin = Plugin::load(s.options().plugin, s.options().table);
    s.require(plugin.has_value(), "round {}: {}", round, plugin ? "" : plugin.error().text);
    Net& net = plugin->net();
    void* context = nullptr;
    s.must("init", [&] { return net.init(s.settings(), &context); });
    const int count = count_of(s, net);
    if (round == 0) {
      first_count = count;
      require_merging(s, net, count);
    }
    s.require(count == first_count, "round {}: devices() reports {}, and {} before any merge",
              round, count, first_count);
    const int made = merge_first_two(s, net);
    s.require(made == count && count_of(s, net) == count + 1,
              "round {}: makeVDevice returned {} and devices() reports {}; {} existed", round, made,
              count_of(s, net), count);
    const std::string error = lone_message(net, context, made, round, s.options().timeout_seconds);
    s.require(error.empty(), "round {}: {}", round, error);
    s.must("finalize", [&] { return net.finalize(context); });
  }
}

// A NIC whose second port is down is a plain device beside nodes where it is a merged one.
void merged_and_plain(Session& s) {
  s.open();
  require_merging(s, s.net(), count_of(s, s.net()));
  const int made = merge_first_two(s, s.net());
  const int own = s.rank() == 0 ? made : 0;
  std::vector<TestConnection> connections = open_connections(s, {{0, 1, own}, {1, 0, own}});
  std::vector<Group> groups;
  for (size_t size : interesting_sizes(s.random(), 20)) groups.push_back(single(size));
  exchange_all(s, connections, groups);
  s.meet("all data has arrived");
}
}  // namespace

ConformanceCases merged_cases() {
  return {
      {"C09-virtual-devices-anew",
       "after the library was loaded anew, devices() counts no virtual device of before, and "
       "makeVDevice works again",
       1, &loaded_anew},
      {"C29-merged-and-plain",
       "a virtual device at one end and a plain one at the other carry data both ways", 2,
       &merged_and_plain},
  };
}

}  // namespace gdr::tools
