#include "transport/wire/wire.h"

#include <gtest/gtest.h>

namespace gdr::transport::wire {
namespace {

TEST(Immediate, EveryField_SurvivesEncoding) {
  for (uint32_t slot : {0u, 1u, 511u}) {
    for (uint32_t chunks : {1u, 2u, 128u}) {
      for (uint32_t generation : {0u, 0x7fffu}) {
        for (bool size_in_table : {false, true}) {
          Immediate back = decode(encode({slot, chunks, generation, size_in_table}));
          EXPECT_EQ(back.slot, slot);
          EXPECT_EQ(back.chunks, chunks);
          EXPECT_EQ(back.generation, generation);
          EXPECT_EQ(back.size_in_table, size_in_table);
        }
      }
    }
  }
}

TEST(Generation, OfABuffer_ChangesOncePerRound) {
  EXPECT_EQ(generation_of(0), generation_of(kSlots - 1));
  EXPECT_NE(generation_of(0), generation_of(kSlots));
  EXPECT_EQ(generation_of(uint64_t{kSlots} << 15), 0u);
}

}  // namespace
}  // namespace gdr::transport::wire
