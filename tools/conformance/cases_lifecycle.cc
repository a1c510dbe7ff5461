// C0x: the table, init and devices.
#include <cstring>

#include "tools/common/nccl_logger.h"
#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
void table_is_complete(Session& s) {
  s.load();
  const abi::ncclNet_v8_t& net = s.net();
  s.require(net.name != nullptr && *net.name != '\0', "the table has no name");
  struct Entry {
    const char* name;
    bool present;
  };
  for (Entry entry :
       {Entry{"init", net.init != nullptr}, Entry{"devices", net.devices != nullptr},
        Entry{"getProperties", net.getProperties != nullptr},
        Entry{"listen", net.listen != nullptr}, Entry{"connect", net.connect != nullptr},
        Entry{"accept", net.accept != nullptr}, Entry{"regMr", net.regMr != nullptr},
        Entry{"deregMr", net.deregMr != nullptr}, Entry{"isend", net.isend != nullptr},
        Entry{"irecv", net.irecv != nullptr}, Entry{"iflush", net.iflush != nullptr},
        Entry{"test", net.test != nullptr}, Entry{"closeSend", net.closeSend != nullptr},
        Entry{"closeRecv", net.closeRecv != nullptr},
        Entry{"closeListen", net.closeListen != nullptr}}) {
    s.require(entry.present, "the table's {} is null", entry.name);
  }
  std::string before = net.name;
  s.open();
  s.require(before == s.net().name, "the name was \"{}\" before init and is \"{}\" after it",
            before, s.net().name);
  bool dmabuf = (s.properties(s.dev()).ptrSupport & abi::kPtrDmaBuf) != 0;
  s.require(!dmabuf || net.regMrDmaBuf != nullptr, "DMABUF is offered but regMrDmaBuf is null");
}

void move_some_data(Session& s) {
  TestConnection connection = open_connection(s, 0, 0);
  exchange(s, connection, {single(1000), single(70000)});
}

// A process that destroys its last communicator and creates another initialises the plugin again.
void init_again(Session& s) {
  s.open();
  int first = 0;
  s.must("devices", [&] { return s.net().devices(&first); });
  {
    TestConnection connection = open_connection(s, 0, 0);
    s.must("init", [&] { return s.net().init(&nccl_logger); });
    exchange(s, connection, {single(5000)});
  }
  for (int i = 0; i < 3; ++i) {
    s.must("init", [&] { return s.net().init(&nccl_logger); });
    int again = 0;
    s.must("devices", [&] { return s.net().devices(&again); });
    s.require(again == first, "devices() was {} and is {} after init again", first, again);
    move_some_data(s);
  }
}

// NCCL sizes its channels by speed and latency, groups receives by maxRecvs, and selects GPUDirect
// by ptrSupport; unusable values lead to errors far from the plugin.
void devices_are_sane(Session& s) {
  s.open();
  int count = 0;
  s.must("devices", [&] { return s.net().devices(&count); });
  for (int dev = 0; dev < count; ++dev) {
    abi::ncclNetProperties_v8_t p = s.properties(dev);
    s.require(p.name != nullptr && *p.name != '\0', "device {} has no name", dev);
    s.require(p.speed > 0, "device {}: speed {}", dev, p.speed);
    s.require(p.maxRecvs >= 1 && p.maxRecvs <= abi::kMaxRecvs, "device {}: maxRecvs {}", dev,
              p.maxRecvs);
    s.require(p.maxComms > 0, "device {}: maxComms {}", dev, p.maxComms);
    s.require(p.port >= 0 && p.latency >= 0, "device {}: port {}, latency {}", dev, p.port,
              p.latency);
    s.require((p.ptrSupport & abi::kPtrHost) != 0, "device {}: ptrSupport 0x{:x} lacks HOST", dev,
              p.ptrSupport);
    s.require(p.netDeviceType == abi::kDeviceHost || p.netDeviceType == abi::kDeviceUnpack,
              "device {}: netDeviceType {}", dev, static_cast<int>(p.netDeviceType));
    s.require(p.pciPath == nullptr || *p.pciPath == '/',
              "device {}: pciPath \"{}\" is not an absolute path", dev, p.pciPath);
    std::string name = p.name;
    abi::ncclNetProperties_v8_t again = s.properties(dev);
    s.require(name == again.name && p.guid == again.guid && p.speed == again.speed &&
                  p.port == again.port && p.ptrSupport == again.ptrSupport,
              "device {}: getProperties differs from one call to the next", dev);
  }
}

void bad_device_is_an_error(Session& s) {
  s.open();
  int count = 0;
  s.must("devices", [&] { return s.net().devices(&count); });
  for (int dev : {-1, count, count + 1000}) {
    abi::ncclNetProperties_v8_t props{};
    auto result = s.call("getProperties", [&] { return s.net().getProperties(dev, &props); });
    s.require(result != abi::ncclSuccess, "getProperties({}) succeeded; {} devices", dev, count);
    char handle[abi::kHandleMaxBytes] = {};
    void* comm = nullptr;
    result = s.call("listen", [&] { return s.net().listen(dev, handle, &comm); });
    s.require(result != abi::ncclSuccess, "listen({}) succeeded; {} devices", dev, count);
  }
}
}  // namespace

ConformanceCases lifecycle_cases() {
  return {
      {"C01-table", "every entry that NCCL calls is set, and .name does not change in init", 1,
       &table_is_complete},
      {"C02-init-again",
       "init may be called again, while comms are open and after all are closed, and the plugin "
       "works as before",
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
