// The plugin's own table of each version.
#pragma once

#include "plugin/tables.h"
#include "tests/unit/plugin/table_calls.h"

namespace gdr::plugin {

inline const abi::ncclNet_v6_t& own_table(TableOf<6>) { return kNetV6; }
inline const abi::ncclNet_v7_t& own_table(TableOf<7>) { return kNetV7; }
inline const abi::ncclNet_v8_t& own_table(TableOf<8>) { return kNetV8; }
inline const abi::ncclNet_v9_t& own_table(TableOf<9>) { return kNetV9; }
inline const abi::ncclNet_v10_t& own_table(TableOf<10>) { return kNetV10; }
inline const abi::ncclNet_v11_t& own_table(TableOf<11>) { return kNetV11; }
inline const abi::ncclNet_v12_t& own_table(TableOf<12>) { return kNetV12; }

}  // namespace gdr::plugin
