// For typed tests over all versions of the table.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace gdr::tools {

template <int... kVersion>
using Versions = testing::Types<std::integral_constant<int, kVersion>...>;
using AllVersions = Versions<6, 7, 8, 9, 10, 11, 12>;

struct VersionName {
  template <class Version>
  static std::string GetName(int) {
    return "v" + std::to_string(Version::value);
  }
};

}  // namespace gdr::tools
