#include "base/result.h"

#include <gtest/gtest.h>

namespace gdr {
namespace {

std::string with_detail(std::string text) {
  add_detail(&text, " (x)");
  return text;
}

TEST(Result, DetailOfATextWithAFix_StandsBeforeIt) {
  EXPECT_EQ(with_detail("it broke. Fix: mend it"), "it broke (x). Fix: mend it");
}

TEST(Result, DetailOfATextWithoutAFix_StandsAtItsEnd) {
  EXPECT_EQ(with_detail("it broke. Twice"), "it broke. Twice (x)");
  EXPECT_EQ(with_detail(""), " (x)");
}

}  // namespace
}  // namespace gdr
