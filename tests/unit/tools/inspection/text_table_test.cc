#include "tools/inspection/text_table.h"

#include <gtest/gtest.h>

namespace gdr::tools::topo {
namespace {

const std::string kLong(60, 'x');

TEST(ShortList, MoreThanFour_AreCounted) {
  EXPECT_EQ(short_list({}), "");
  EXPECT_EQ(short_list({"a", "b", "c", "d"}), "a, b, c, d");
  EXPECT_EQ(short_list({"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

TEST(TextTable, Cells_LineUpByCharactersNotBytes) {
  EXPECT_EQ(aligned({{"a", "b"}, {"\u00e4\u00f6\u00fc", "c"}, {"d"}}, " "),
            " a    b\n \u00e4\u00f6\u00fc  c\n d\n");
}

TEST(TextTable, Wrapped_BreaksAtBlanksAndIsIndented) {
  EXPECT_EQ(wrapped("[1] ", "short"), "[1] short\n");
  EXPECT_EQ(wrapped("[1] ", kLong + " " + kLong + " y"),
            "[1] " + kLong + "\n    " + kLong + " y\n");
}

}  // namespace
}  // namespace gdr::tools::topo
