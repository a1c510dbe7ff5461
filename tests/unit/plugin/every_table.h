// The plugin's tables as the types of a typed test, by version.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "plugin/tables.h"
#include "tests/unit/plugin/table_calls.h"

namespace gdr::plugin {

using EveryTable = ::testing::Types<TableOf<6>, TableOf<7>, TableOf<8>, TableOf<9>, TableOf<10>,
                                    TableOf<11>, TableOf<12>>;

// Names the tests of a version "v8".
struct NameOfTable {
  template <class Version>
  static std::string GetName(int) {
    return "v" + std::to_string(Version::kNumber);
  }
};

inline const abi::ncclNet_v6_t& own_table(TableOf<6>) { return kNetV6; }
inline const abi::ncclNet_v7_t& own_table(TableOf<7>) { return kNetV7; }
inline const abi::ncclNet_v8_t& own_table(TableOf<8>) { return kNetV8; }
inline const abi::ncclNet_v9_t& own_table(TableOf<9>) { return kNetV9; }
inline const abi::ncclNet_v10_t& own_table(TableOf<10>) { return kNetV10; }
inline const abi::ncclNet_v11_t& own_table(TableOf<11>) { return kNetV11; }
inline const abi::ncclNet_v12_t& own_table(TableOf<12>) { return kNetV12; }

}  // namespace gdr::plugin
