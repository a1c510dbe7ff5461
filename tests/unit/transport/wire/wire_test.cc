#include "transport/wire/wire.h"

#include <gtest/gtest.h>

namespace gdr::transport::wire {
namespace {

TEST(Immediate, EveryField_SurvivesEncoding) {
  for (uint32_t slot : {0u, 1u, 511u}) {
    for (uint32_t chunks : {1u, 2u, 128u}) {
      for (uint32_t stamp : {0u, 0x7fffu}) {
        for (bool size_in_table : {false, true}) {
          Immediate back = decode(encode({slot, chunks, stamp, size_in_table}));
          EXPECT_EQ(back.slot, slot);
          EXPECT_EQ(back.chunks, chunks);
          EXPECT_EQ(back.stamp, stamp);
          EXPECT_EQ(back.size_in_table, size_in_table);
        }
      }
    }
  }
}

TEST(Generation, OfABuffer_ChangesOncePerRound) {
  EXPECT_EQ(generation_of(0), generation_of(kSlots - 1));
  EXPECT_NE(generation_of(0), generation_of(kSlots));
  EXPECT_EQ(generation_of(15 * kSlots), 15u);
  EXPECT_EQ(generation_of(16 * kSlots), 0u);
}

TEST(Stamp, OfABuffer_HasNoReservedBits) {
  for (uint64_t buffer : {uint64_t{0}, uint64_t{kSlots} * 15, ~uint64_t{0}}) {
    EXPECT_EQ(stamp_of(buffer) >> 8, 0u) << buffer;
    EXPECT_EQ(stamp_of(buffer) >> 4, 0u) << buffer;
    EXPECT_EQ(stamp_of(buffer, 15) >> 4, 15u) << buffer;
    EXPECT_EQ(stamp_of(buffer, 16), stamp_of(buffer)) << buffer;
    EXPECT_EQ(stamp_of(buffer) & 15, generation_of(buffer)) << buffer;
  }
}

TEST(ClearToSend, AnythingBesideTheGroup_IsNotPlain) {
  ClearToSend slot{};
  slot.group = 255;
  EXPECT_TRUE(is_plain(slot) && is_known(slot));
  slot.flags = kChunked;
  EXPECT_FALSE(is_plain(slot));
  EXPECT_TRUE(is_known(slot));
  slot.flags = 0;
  slot.reserved[0] = 1;
  EXPECT_FALSE(is_plain(slot) || is_known(slot));
  slot.reserved[0] = 0;
  slot.reserved[1] = 0x80;
  EXPECT_FALSE(is_plain(slot) || is_known(slot));
}

}  // namespace
}  // namespace gdr::transport::wire
