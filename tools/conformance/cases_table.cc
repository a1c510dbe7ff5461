// C05 to C07: what differs between the versions of the table before any connection: log lines, the
// properties of each version, and virtual devices.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <set>

#include "tools/common/nccl_logger.h"
#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
constexpr size_t kLineBytes = 1024;  // NCCL formats into a buffer of this size (src/debug.cc)

// Formats every line, as NCCL does where NCCL_DEBUG asks for it.
void formatting_logger(abi::ncclDebugLogLevel level, unsigned long flags, const char* file,
                       int line, const char* format, ...) __attribute__((format(printf, 5, 6)));

void formatting_logger(abi::ncclDebugLogLevel level, unsigned long flags, const char* file,
                       int line, const char* format, ...) {
  char text[kLineBytes];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  nccl_logger(level, flags, file, line, "%s", text);
}

// A line with wrong arguments crashes only where its level is on, which is after something has gone
// wrong. A device without a PCI function is a usual cause: its pciPath is null.
void log_lines(Session& s) {
  s.load();
  InitArguments settings = s.settings();
  settings.logger = &formatting_logger;
  s.open(settings);
  int count = 0;
  s.must("devices", [&] { return s.net().devices(&count); });
  for (int dev = 0; dev < count; ++dev) s.properties(dev);
  TestConnection connection = open_connection(s, 0, 0);
  exchange(s, connection, {single(1000), single(70000)});
}

bool is_flag(int value) { return value == 0 || value == 1; }

void check_merged(Session& s, int dev, int count, const NetProperties& p) {
  int most = s.contract().max_merged_devices;
  s.require(p.merged.count >= 1 && p.merged.count <= most,
            "device {}: vProps.ndevs {}; version {} has room for {}", dev, p.merged.count,
            s.contract().version, most);
  std::set<int> different;
  for (int i = 0; i < p.merged.count; ++i) {
    int part = p.merged.devices[static_cast<size_t>(i)];
    s.require(part >= 0 && part < count && different.insert(part).second,
              "device {}: vProps.devs[{}] is {}; {} devices", dev, i, part, count);
  }
}

// NCCL ends the communicator where maxP2pBytes is 0 or above 1 TiB (src/transport/net.cc), looks up
// the parts of a device by vProps and its rail by railId (src/graph/topo.cc).
void properties_by_version(Session& s) {
  s.open();
  const Contract& contract = s.contract();
  int count = 0;
  s.must("devices", [&] { return s.net().devices(&count); });
  for (int dev = 0; dev < count; ++dev) {
    NetProperties p = s.properties(dev);
    s.require(is_flag(p.reg_is_global), "device {}: regIsGlobal {}", dev, p.reg_is_global);
    s.require(is_flag(p.force_flush), "device {}: forceFlush {}", dev, p.force_flush);
    s.require(p.max_p2p_bytes > 0 && p.max_p2p_bytes <= abi::kMaxNetBytes,
              "device {}: maxP2pBytes {}; it must be above 0 and at most {}", dev, p.max_p2p_bytes,
              abi::kMaxNetBytes);
    s.require(p.max_coll_bytes > 0 && p.max_coll_bytes <= abi::kMaxNetBytes,
              "device {}: maxCollBytes {}; it must be above 0 and at most {}", dev,
              p.max_coll_bytes, abi::kMaxNetBytes);
    s.require(p.max_multi_request_size >= 1, "device {}: maxMultiRequestSize {}", dev,
              p.max_multi_request_size);
    s.require(p.rail >= abi::kNetIdUndefined && p.plane >= abi::kNetIdUndefined,
              "device {}: railId {}, planeId {}", dev, p.rail, p.plane);
    if (contract.max_merged_devices > 0) check_merged(s, dev, count, p);
  }
}

int device_count(Session& s) {
  int count = 0;
  s.must("devices", [&] { return s.net().devices(&count); });
  return count;
}

// NCCL asks only for devices that exist, but a plugin that reads its arrays with an index from
// outside corrupts itself.
void expect_refused(Session& s, const MergedDevices& merged, const char* what) {
  int before = device_count(s);
  int made = -1;
  auto result = s.call("makeVDevice", [&] { return s.net().make_v_device(&made, merged); });
  s.require(result != abi::ncclSuccess, "makeVDevice of {} succeeded", what);
  s.require(device_count(s) == before, "makeVDevice of {} failed and devices() grew from {} to {}",
            what, before, device_count(s));
}

// NCCL takes the devices that devices() reports beyond the first count for the virtual ones, and
// finds each in the topology by its name (src/graph/topo.cc).
void check_virtual(Session& s, int made, int first, int second, int physical) {
  s.require(made == physical, "makeVDevice returned index {}; {} devices existed", made, physical);
  s.require(device_count(s) == physical + 1, "devices() was {} and is {} after makeVDevice",
            physical, device_count(s));
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
  if (s.contract().max_merged_devices == 0) {
    s.skip(fmt::format("version {} has no makeVDevice", s.contract().version));
  }
  if (!s.net().has(NetEntry::kMakeVDevice)) s.skip("makeVDevice is null: no virtual devices");
  int physical = device_count(s);
  expect_refused(s, MergedDevices{0, {}}, "no devices");
  expect_refused(s, MergedDevices{2, {s.dev(), physical}}, "a device that does not exist");
  expect_refused(s, MergedDevices{2, {s.dev(), -1}}, "device -1");
  if (physical < 2) s.skip("the plugin has one device");
  int other = s.dev() == 0 ? 1 : 0;
  MergedDevices merged{2, {s.dev(), other}};
  int made = -1;
  auto result = s.call("makeVDevice", [&] { return s.net().make_v_device(&made, merged); });
  if (result != abi::ncclSuccess) {
    s.skip(fmt::format("makeVDevice of devices {} and {} returned {}", s.dev(), other,
                       describe(result)));
  }
  check_virtual(s, made, s.dev(), other, physical);
  std::vector<TestConnection> connections = open_connections(s, {{0, 0, made}, {0, 0}});
  exchange_all(s, connections, {single(1), single(100000), single(3000000), single(0)});
}
}  // namespace

ConformanceCases table_cases() {
  return {
      {"C05-log-lines",
       "every line for NCCL's logger can be formatted, also for a device without a PCI function", 1,
       &log_lines},
      {"C06-properties-of-version",
       "the properties that later versions added are in range: maxP2pBytes and maxCollBytes from 1 "
       "to 1 TiB, vProps with existing devices (v9), maxMultiRequestSize (v11), railId and planeId "
       "(v12)",
       1, &properties_by_version},
      {"C07-virtual-devices",
       "makeVDevice (v9) is null, or makes a usable device with a name of its own and refuses "
       "devices that do not exist",
       1, &virtual_devices},
  };
}

}  // namespace gdr::tools
