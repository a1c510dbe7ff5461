// The types of each version of the table, and the conversion of its structures to the tools' own.
// A field that a version lacks keeps the initial value of NetProperties.
#pragma once

#include <algorithm>
#include <tuple>

#include "plugin/abi/net_v10.h"
#include "plugin/abi/net_v11.h"
#include "plugin/abi/net_v12.h"
#include "plugin/abi/net_v6.h"
#include "plugin/abi/net_v7.h"
#include "plugin/abi/net_v8.h"
#include "plugin/abi/net_v9.h"
#include "tools/net/net.h"

namespace gdr::tools {

using Tables =
    std::tuple<abi::ncclNet_v6_t, abi::ncclNet_v7_t, abi::ncclNet_v8_t, abi::ncclNet_v9_t,
               abi::ncclNet_v10_t, abi::ncclNet_v11_t, abi::ncclNet_v12_t>;
template <int kVersion>
using TableOf = std::tuple_element_t<kVersion - kOldestTable, Tables>;

// What the second argument of an entry, such as getProperties or makeVDevice, points to.
template <class First, class Second>
Second pointed_to(abi::ncclResult_t (*)(First, Second*));

// Keeps a count that is out of range, so that a conformance case can report it.
template <class VDeviceProps>
MergedDevices merged_from(const VDeviceProps& props) {
  MergedDevices merged;
  merged.count = props.ndevs;
  // The rest is not the plugin's to set.
  const int named = std::clamp(props.ndevs, 0, static_cast<int>(std::size(props.devs)));
  std::copy_n(std::begin(props.devs), named, merged.devices.begin());
  return merged;
}

template <class Properties>
NetProperties properties_from(int dev, const Properties& p) {
  NetProperties made;
  made.name = p.name;
  made.pci_path = p.pciPath;
  made.guid = p.guid;
  made.pointer_support = p.ptrSupport;
  made.speed_mbps = p.speed;
  made.port = p.port;
  made.latency_us = p.latency;
  made.max_comms = p.maxComms;
  made.max_recvs = p.maxRecvs;
  made.merged = MergedDevices{1, {dev}};
  if constexpr (requires { p.netDeviceType; }) {
    made.device_type = p.netDeviceType;
    made.device_version = p.netDeviceVersion;
  }
  if constexpr (requires { p.regIsGlobal; }) made.reg_is_global = p.regIsGlobal;
  if constexpr (requires { p.forceFlush; }) made.force_flush = p.forceFlush;
  if constexpr (requires { p.vProps; }) {
    made.merged = merged_from(p.vProps);
    made.max_p2p_bytes = p.maxP2pBytes;
    made.max_coll_bytes = p.maxCollBytes;
  }
  if constexpr (requires { p.maxMultiRequestSize; }) {
    made.max_multi_request_size = p.maxMultiRequestSize;
  }
  if constexpr (requires { p.railId; }) {
    made.rail = p.railId;
    made.plane = p.planeId;
  }
  return made;
}

inline abi::ncclNetAttr_v11_t to_table(const NetAttributes& attributes) {
  auto hints = [](const PeerHints& of) {
    return abi::ncclNetCommAttr_v11_t{of.max_concurrent_peers, of.min_concurrent_peers,
                                      of.max_flows_per_peer, of.min_flows_per_peer};
  };
  return {hints(attributes.send), hints(attributes.receive), attributes.op, attributes.algo,
          attributes.proto};
}

}  // namespace gdr::tools
