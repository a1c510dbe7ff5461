#include "tools/topo/short_list.h"

#include <gtest/gtest.h>

namespace gdr::tools::topo {
namespace {

TEST(ShortList, MoreThanFour_AreCounted) {
  EXPECT_EQ(short_list({}), "");
  EXPECT_EQ(short_list({"a", "b", "c", "d"}), "a, b, c, d");
  EXPECT_EQ(short_list({"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

}  // namespace
}  // namespace gdr::tools::topo
