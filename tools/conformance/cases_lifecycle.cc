// C01 to C06: the table, init, devices, log lines, and the properties of each version.
#include <cstdarg>
#include <cstdio>
#include <set>

#include "tools/common/nccl_logger.h"
#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
void table_is_complete(Session& s) {
  s.load();
  Net& net = s.net();
  s.require(net.name() != nullptr && *net.name() != '\0', "the table has no name");
  s.require(net.has(NetEntry::kInit), "the table's init is null");
  std::string before = net.name();
  s.open();
  // Only the name and init are read before init has returned (src/plugin/net/net_v*.cc).
  for (size_t i = 0; i < std::size(kNetEntries); ++i) {
    bool called = kNetEntries[i].required && kNetEntries[i].since <= net.version();
    s.require(!called || net.has(NetEntry{static_cast<uint8_t>(i)}), "the table's {} is null",
              kNetEntries[i].name);
  }
  s.require(before == net.name(), "the name was \"{}\" before init and is \"{}\" after it", before,
            net.name());
  bool dmabuf = (s.properties(s.dev()).pointer_support & abi::kPtrDmaBuf) != 0;
  s.require(!dmabuf || net.has(NetEntry::kRegMrDmaBuf),
            "DMABUF is offered but regMrDmaBuf is null");
}

// A process that destroys its last communicator and creates another initialises the plugin again.
void init_again(Session& s) {
  s.open();
  const int first = s.devices();
  {
    TestConnection connection = open_connection(s, 0, 0);
    void* second = s.init(s.settings());
    exchange(s, connection, {single(5000)});
    s.finalize(second);
    exchange(s, connection, {single(300)});
  }
  for (int i = 0; i < 3; ++i) {
    void* context = s.init(s.settings());
    const int again = s.devices();
    s.require(again == first, "devices() was {} and is {} after init again", first, again);
    exchange(s, open_connection(s, context, 0, 0), {single(1000), single(70000)});
    s.finalize(context);
  }
}

// NCCL sizes its channels by speed and latency, groups receives by maxRecvs, and selects GPUDirect
// by ptrSupport; unusable values lead to errors far from the plugin.
void devices_are_sane(Session& s) {
  s.open();
  const int count = s.devices();
  for (int dev = 0; dev < count; ++dev) {
    NetProperties p = s.properties(dev);
    s.require(p.name != nullptr && *p.name != '\0', "device {} has no name", dev);
    s.require(p.speed_mbps > 0, "device {}: speed {}", dev, p.speed_mbps);
    s.require(p.max_recvs >= 1 && p.max_recvs <= abi::kMaxRecvs, "device {}: maxRecvs {}", dev,
              p.max_recvs);
    s.require(p.max_comms > 0, "device {}: maxComms {}", dev, p.max_comms);
    s.require(p.port >= 0 && p.latency_us >= 0, "device {}: port {}, latency {}", dev, p.port,
              p.latency_us);
    s.require((p.pointer_support & abi::kPtrHost) != 0, "device {}: ptrSupport 0x{:x} lacks HOST",
              dev, p.pointer_support);
    s.require(p.device_type == abi::kDeviceHost || p.device_type == abi::kDeviceUnpack,
              "device {}: netDeviceType {}", dev, static_cast<int>(p.device_type));
    s.require(p.pci_path == nullptr || *p.pci_path == '/',
              "device {}: pciPath \"{}\" is not an absolute path", dev, p.pci_path);
    std::string name = p.name;
    NetProperties again = s.properties(dev);
    s.require(name == again.name && p.guid == again.guid && p.speed_mbps == again.speed_mbps &&
                  p.port == again.port && p.pointer_support == again.pointer_support,
              "device {}: getProperties differs from one call to the next", dev);
  }
}

void bad_device_is_an_error(Session& s) {
  s.open();
  const int count = s.devices();
  for (int dev : {-1, count, count + 1000}) {
    NetProperties props;
    auto result = s.call("getProperties", [&] { return s.net().properties(dev, &props); });
    s.require(result != abi::ncclSuccess, "getProperties({}) succeeded; {} devices", dev, count);
    char handle[abi::kHandleMaxBytes] = {};
    void* comm = nullptr;
    result = s.call("listen", [&] { return s.net().listen(s.context(), dev, handle, &comm); });
    s.require(result != abi::ncclSuccess, "listen({}) succeeded; {} devices", dev, count);
  }
}

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
  for (int dev = 0; dev < s.devices(); ++dev) s.properties(dev);
  exchange(s, open_connection(s, 0, 0), {single(1000), single(70000)});
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
  const Contract contract = s.contract();
  const int count = s.devices();
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
}  // namespace

ConformanceCases lifecycle_cases() {
  return {
      {"C01-table", "every entry that NCCL calls is set, and .name does not change in init", 1,
       &table_is_complete},
      {"C02-init-again",
       "init may be called again, while comms are open and after all are closed, and finalize "
       "after each; the plugin works as before",
       1, &init_again},
      {"C03-devices",
       "getProperties reports a name, a speed above 0, maxRecvs 1..8 and host memory, and the same "
       "on every call",
       1, &devices_are_sane},
      {"C04-bad-device", "a device out of range is an error, not a crash", 1,
       &bad_device_is_an_error},
      {"C05-log-lines",
       "every line for NCCL's logger can be formatted, also for a device without a PCI function", 1,
       &log_lines},
      {"C06-properties-of-version",
       "the properties that later versions added are in range: maxP2pBytes and maxCollBytes from 1 "
       "to 1 TiB, vProps with existing devices (v9), maxMultiRequestSize (v11), railId and planeId "
       "(v12)",
       1, &properties_by_version},
  };
}

}  // namespace gdr::tools
