#include "transport/wire.h"

#include <gtest/gtest.h>

namespace gdr::wire {
namespace {

TEST(Immediate, EveryField_SurvivesEncoding) {
  for (uint32_t slot : {0u, 1u, 511u}) {
    for (uint32_t shares : {1u, 2u, 128u}) {
      for (uint32_t lap : {0u, 0x7fffu}) {
        for (bool size_in_table : {false, true}) {
          Immediate back = decode(encode({slot, shares, lap, size_in_table}));
          EXPECT_EQ(back.slot, slot);
          EXPECT_EQ(back.shares, shares);
          EXPECT_EQ(back.lap, lap);
          EXPECT_EQ(back.size_in_table, size_in_table);
        }
      }
    }
  }
}

TEST(Lap, OfGroup_ChangesOncePerRound) {
  EXPECT_EQ(lap_of(0), lap_of(kSlots - 1));
  EXPECT_NE(lap_of(0), lap_of(kSlots));
  EXPECT_EQ(lap_of(uint64_t{kSlots} << 15), 0u);
}

}  // namespace
}  // namespace gdr::wire
