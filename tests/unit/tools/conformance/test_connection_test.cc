#include "tools/conformance/test_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
using testing::HasSubstr;

TEST(GuardedBuffer, BytesOfTheMessage_AreNoDamageAndTheNextOneIs) {
  EXPECT_EQ(GuardedBuffer(0).damage(0), "");
  GuardedBuffer buffer(100);
  EXPECT_EQ(buffer.damage(0), "");
  for (size_t i = 0; i < 60; ++i) buffer.data()[i] = 'm';
  EXPECT_EQ(buffer.damage(60), "");
  buffer.data()[60] = 'm';
  EXPECT_THAT(buffer.damage(60), HasSubstr("byte 60"));
}

TEST(GuardedBuffer, BytesAroundTheBuffer_AreDamage) {
  GuardedBuffer after(100);
  after.data()[100] = 'm';
  EXPECT_THAT(after.damage(100), HasSubstr("past the end"));
  GuardedBuffer before(100);
  before.data()[-1] = 'm';
  EXPECT_THAT(before.damage(100), HasSubstr("1 before"));
}

TEST(GuardedBuffer, Misaligned_StartsAtThatOffset) {
  for (size_t misalign : {0, 1, 63}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(GuardedBuffer(10, misalign).data()) % 64, misalign);
  }
}
}  // namespace
}  // namespace gdr::tools
