// The versions of NCCL's network table that the plugin has and exports: NCCL looks them up by name,
// the newest that it knows first.
#pragma once

#include "plugin/abi/net_v12.h"
#include "plugin/abi/net_v6.h"

namespace gdr::plugin {

// What NCCL_NET selects by. The name is final before init: NCCL compares it when it has looked the
// table up.
inline constexpr char kName[] = "GDR";

#define GDR_EXPORTED_AS(name) __asm__(name) __attribute__((visibility("default")))

extern const abi::ncclNet_v6_t kNetV6 GDR_EXPORTED_AS("ncclNetPlugin_v6");
extern const abi::ncclNet_v7_t kNetV7 GDR_EXPORTED_AS("ncclNetPlugin_v7");
extern const abi::ncclNet_v8_t kNetV8 GDR_EXPORTED_AS("ncclNetPlugin_v8");
extern const abi::ncclNet_v9_t kNetV9 GDR_EXPORTED_AS("ncclNetPlugin_v9");
extern const abi::ncclNet_v10_t kNetV10 GDR_EXPORTED_AS("ncclNetPlugin_v10");
extern const abi::ncclNet_v11_t kNetV11 GDR_EXPORTED_AS("ncclNetPlugin_v11");
extern const abi::ncclNet_v12_t kNetV12 GDR_EXPORTED_AS("ncclNetPlugin_v12");

#undef GDR_EXPORTED_AS

}  // namespace gdr::plugin
