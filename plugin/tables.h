// The versions of NCCL's network table that the plugin has. exports.cc offers them to NCCL.
#pragma once

#include "plugin/abi/net_v12.h"
#include "plugin/abi/net_v6.h"

namespace gdr::plugin {

// What NCCL_NET selects by. The name is final before init: NCCL compares it when it has looked the
// table up.
inline constexpr char kName[] = "GDR";

extern const abi::ncclNet_v6_t kNetV6;
extern const abi::ncclNet_v7_t kNetV7;
extern const abi::ncclNet_v8_t kNetV8;
extern const abi::ncclNet_v9_t kNetV9;
extern const abi::ncclNet_v10_t kNetV10;
extern const abi::ncclNet_v11_t kNetV11;
extern const abi::ncclNet_v12_t kNetV12;

}  // namespace gdr::plugin
