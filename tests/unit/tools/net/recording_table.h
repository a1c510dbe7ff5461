// A network table of each version whose entries record their arguments, and its converter.
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/net/table_types.h"

namespace gdr::tools {

// The newest call of a recording table.
struct RecordedCall {
  int calls = 0;
  NetEntry entry{};
  // One value for each argument: a pointer's address, a number, a config's traffic class, and 1 for
  // a place that can take a device handle.
  std::vector<uint64_t> arguments;
  std::vector<size_t> sizes;         // irecv: what its array held
  std::vector<int> merged;           // makeVDevice: ndevs, then devs
  NetAttributes attributes;          // setNetAttr
  void* request_on_entry = nullptr;  // irecv
};

inline RecordedCall g_recorded;
inline abi::ncclResult_t g_entries_return = abi::ncclSuccess;
inline void* g_context_of_plugin = nullptr;  // what init sets, from v11

inline uint64_t recorded_value(abi::ncclNetCommConfig_v10_t* config) {
  return static_cast<uint64_t>(config->trafficClass);
}
inline uint64_t recorded_value(abi::ncclNetDeviceHandle_v7_t** offload) {
  return offload == nullptr ? 0 : 1;
}
template <class T>
uint64_t recorded_value(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

template <class Sizes>
void record_receive(int n, const Sizes* sizes, void** request) {
  g_recorded.sizes.assign(sizes, sizes + n);
  g_recorded.request_on_entry = *request;
}

inline void record_attributes(const abi::ncclNetAttr_v11_t& from) {
  auto hints = [](const abi::ncclNetCommAttr_v11_t& of) {
    return PeerHints{of.maxConcurrentPeers, of.minConcurrentPeers, of.maxFlowsPerPeer,
                     of.minFlowsPerPeer};
  };
  g_recorded.attributes = {hints(from.sendCommAttr), hints(from.recvCommAttr), from.op, from.algo,
                           from.proto};
}

template <NetEntry kEntry, class... Arguments>
abi::ncclResult_t record(Arguments... arguments) {
  g_recorded.entry = kEntry;
  ++g_recorded.calls;
  g_recorded.arguments = {recorded_value(arguments)...};
  auto all = std::make_tuple(arguments...);
  if constexpr (kEntry == NetEntry::kIrecv) {
    record_receive(std::get<1>(all), std::get<3>(all), std::get<sizeof...(Arguments) - 1>(all));
  } else if constexpr (kEntry == NetEntry::kMakeVDevice) {
    const auto& props = *std::get<1>(all);
    g_recorded.merged = {props.ndevs};
    g_recorded.merged.insert(g_recorded.merged.end(), std::begin(props.devs), std::end(props.devs));
  } else if constexpr (kEntry == NetEntry::kSetNetAttr) {
    record_attributes(*std::get<1>(all));
  } else if constexpr (kEntry == NetEntry::kInit && sizeof...(Arguments) == 5) {
    *std::get<0>(all) = g_context_of_plugin;
  }
  return g_entries_return;
}

template <NetEntry kEntry, class... Arguments>
void fake(abi::ncclResult_t (*&entry)(Arguments...)) {
  entry = &record<kEntry, Arguments...>;
}

template <int kVersion>
TableOf<kVersion> recording_table() {
  TableOf<kVersion> t{};
  t.name = "Recorder";
  fake<NetEntry::kInit>(t.init);
  fake<NetEntry::kDevices>(t.devices);
  fake<NetEntry::kGetProperties>(t.getProperties);
  fake<NetEntry::kListen>(t.listen);
  fake<NetEntry::kConnect>(t.connect);
  fake<NetEntry::kAccept>(t.accept);
  fake<NetEntry::kRegMr>(t.regMr);
  fake<NetEntry::kRegMrDmaBuf>(t.regMrDmaBuf);
  fake<NetEntry::kDeregMr>(t.deregMr);
  fake<NetEntry::kIsend>(t.isend);
  fake<NetEntry::kIrecv>(t.irecv);
  fake<NetEntry::kIflush>(t.iflush);
  fake<NetEntry::kTest>(t.test);
  fake<NetEntry::kCloseSend>(t.closeSend);
  fake<NetEntry::kCloseRecv>(t.closeRecv);
  fake<NetEntry::kCloseListen>(t.closeListen);
  if constexpr (kVersion >= 7) {
    fake<NetEntry::kGetDeviceMr>(t.getDeviceMr);
    fake<NetEntry::kIrecvConsumed>(t.irecvConsumed);
  }
  if constexpr (kVersion >= 9) fake<NetEntry::kMakeVDevice>(t.makeVDevice);
  if constexpr (kVersion >= 11) {
    fake<NetEntry::kFinalize>(t.finalize);
    fake<NetEntry::kSetNetAttr>(t.setNetAttr);
  }
  return t;
}

struct ConvertedTable {
  std::shared_ptr<void> table;
  std::unique_ptr<Net> net;
};

// Calls make.operator()<version>(), which returns a table of the version.
template <class Make, int... kOffset>
ConvertedTable converted(int version, Make make, std::integer_sequence<int, kOffset...>) {
  ConvertedTable made;
  auto try_one = [&]<int kVersion>() {
    if (version != kVersion) return;
    made.table = std::make_shared<TableOf<kVersion>>(make.template operator()<kVersion>());
    made.net = make_net(version, made.table.get());
  };
  (try_one.template operator()<kOldestTable + kOffset>(), ...);
  return made;
}
template <class Make>
ConvertedTable converted(int version, Make make) {
  constexpr int kVersions = kNewestTable - kOldestTable + 1;
  return converted(version, make, std::make_integer_sequence<int, kVersions>());
}

}  // namespace gdr::tools
