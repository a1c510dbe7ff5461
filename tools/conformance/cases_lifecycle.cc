// C0x: the table, init and devices.
#include <cstring>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
void table_is_complete(Session& s) {
  s.load();
  Net& net = s.net();
  s.require(net.name() != nullptr && *net.name() != '\0', "the table has no name");
  for (const EntryFacts& facts : net_entries()) {
    bool called = facts.required && facts.since <= net.version();
    s.require(!called || net.has(facts.entry), "the table's {} is null", facts.name);
  }
  std::string before = net.name();
  s.open();
  s.require(before == net.name(), "the name was \"{}\" before init and is \"{}\" after it", before,
            net.name());
  bool dmabuf = (s.properties(s.dev()).pointer_support & abi::kPtrDmaBuf) != 0;
  s.require(!dmabuf || net.has(NetEntry::kRegMrDmaBuf),
            "DMABUF is offered but regMrDmaBuf is null");
}

void move_some_data(Session& s, void* context) {
  TestConnection connection = open_connection(s, context, 0, 0);
  exchange(s, connection, {single(1000), single(70000)});
}

// A process that destroys its last communicator and creates another initialises the plugin again.
void init_again(Session& s) {
  s.open();
  int first = 0;
  s.must("devices", [&] { return s.net().devices(&first); });
  {
    TestConnection connection = open_connection(s, 0, 0);
    void* second = s.init(s.settings());
    exchange(s, connection, {single(5000)});
    s.finalize(second);
    exchange(s, connection, {single(300)});
  }
  for (int i = 0; i < 3; ++i) {
    void* context = s.init(s.settings());
    int again = 0;
    s.must("devices", [&] { return s.net().devices(&again); });
    s.require(again == first, "devices() was {} and is {} after init again", first, again);
    move_some_data(s, context);
    s.finalize(context);
  }
}

// NCCL sizes its channels by speed and latency, groups receives by maxRecvs, and selects GPUDirect
// by ptrSupport; unusable values lead to errors far from the plugin.
void devices_are_sane(Session& s) {
  s.open();
  int count = 0;
  s.must("devices", [&] { return s.net().devices(&count); });
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
  int count = 0;
  s.must("devices", [&] { return s.net().devices(&count); });
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
}  // namespace

ConformanceCases lifecycle_cases() {
  return {
      {"C01-table", "every entry that NCCL calls is set, and .name does not change in init", 1,
       &table_is_complete},
      {"C02-init-again",
       "init may be called again, while comms are open and after all are closed, and finalize "
       "after "
       "each; the plugin works as before",
       1, &init_again},
      {"C03-devices",
       "getProperties reports a name, a speed above 0, maxRecvs 1..8 and host memory, and the same "
       "on every call",
       1, &devices_are_sane},
      {"C04-bad-device", "a device out of range is an error, not a crash", 1,
       &bad_device_is_an_error},
  };
}

}  // namespace gdr::tools
