#include "transport/wire/wire.h"

#include <gtest/gtest.h>

namespace gdr::transport::wire {
namespace {

void expect_survives_encoding(const Immediate& immediate) {
  const Immediate back = decode(encode(immediate));
  EXPECT_EQ(back.slot, immediate.slot);
  EXPECT_EQ(back.chunks, immediate.chunks);
  EXPECT_EQ(back.stamp, immediate.stamp);
  EXPECT_EQ(back.size_in_table, immediate.size_in_table);
  EXPECT_EQ(back.size_is_coded, immediate.size_is_coded);
  EXPECT_EQ(back.size_code, immediate.size_code);
}

TEST(Immediate, EveryField_SurvivesEncoding) {
  for (uint32_t slot : {0u, 1u, 255u}) {
    for (uint32_t chunks : {1u, 2u, 128u}) {
      for (uint32_t stamp : {0u, 0x7fffu}) {
        for (bool size_in_table : {false, true}) {
          expect_survives_encoding({slot, chunks, stamp, size_in_table});
        }
      }
    }
    for (uint32_t stamp : {0u, 0x1ffu}) {
      for (uint32_t code : {0u, 1u, 127u, 128u, (1u << kSizeCodeBits) - 1}) {
        expect_survives_encoding({slot, 1, stamp, false, true, code});
      }
    }
  }
}

TEST(SizeCode, OfASizeThatHasOne_IsThatSize) {
  for (uint64_t capacity :
       {uint64_t{1}, uint64_t{9000}, uint64_t{128} << 10, (uint64_t{1} << 20) - 1,
        uint64_t{1} << 20, uint64_t{3} << 30, ~uint64_t{0}}) {
    const uint64_t unit = size_unit(capacity);
    EXPECT_EQ(unit % kSplitAlignment, 0u);
    for (uint64_t bytes : {capacity, capacity / unit * unit, unit, capacity / 3 / unit * unit}) {
      if (bytes == 0 || bytes > capacity) continue;
      const std::optional<uint32_t> code = size_code(bytes, capacity);
      ASSERT_TRUE(code) << bytes << " of " << capacity;
      EXPECT_EQ(*code >> kSizeCodeBits, 0u);
      EXPECT_EQ(size_of_code(*code, capacity), bytes) << capacity;
    }
  }
}

TEST(SizeCode, OfNoBytesOrAPartOfAUnit_IsNone) {
  EXPECT_FALSE(size_code(0, 1000));
  EXPECT_FALSE(size_code(999, 1000));
  EXPECT_FALSE(size_code(129, 1 << 20));
  EXPECT_FALSE(size_code(128, 1 << 20)) << "the unit is 256 bytes from 1 MiB on";
  EXPECT_TRUE(size_code(128, (1 << 20) - 1));
  EXPECT_EQ(size_unit(uint64_t{4} << 20), 1024u);
}

TEST(Generation, OfABuffer_ChangesOncePerRound) {
  EXPECT_EQ(generation_of(0), generation_of(kSlots - 1));
  EXPECT_NE(generation_of(0), generation_of(kSlots));
  EXPECT_EQ(generation_of(31 * kSlots), 31u);
  EXPECT_EQ(generation_of(32 * kSlots), 0u);
}

TEST(Stamp, OfABuffer_HasNoReservedBits) {
  for (uint64_t buffer : {uint64_t{0}, uint64_t{kSlots} * 31, ~uint64_t{0}}) {
    EXPECT_EQ(stamp_of(buffer) >> 9, 0u) << buffer;
    EXPECT_EQ(stamp_of(buffer) >> 5, 0u) << buffer;
    EXPECT_EQ(stamp_of(buffer, 15) >> 5, 15u) << buffer;
    EXPECT_EQ(stamp_of(buffer, 16), stamp_of(buffer)) << buffer;
    EXPECT_EQ(stamp_of(buffer) & 31, generation_of(buffer)) << buffer;
  }
}

TEST(ClearToSend, AnythingBesideTheGroup_IsNotPlain) {
  ClearToSend slot{};
  slot.group_and_flags = 255;
  EXPECT_TRUE(is_plain(slot) && is_known(slot));
  slot.group_and_flags |= kUsersBuffer | kAfterDecline;
  EXPECT_EQ(group_of(slot), 255);
  EXPECT_FALSE(is_plain(slot));
  EXPECT_TRUE(is_known(slot));
  for (int bit = 10; bit < 32; ++bit) {
    slot.group_and_flags = 1 | 1u << bit;
    EXPECT_FALSE(is_plain(slot) || is_known(slot)) << bit;
  }
}

}  // namespace
}  // namespace gdr::transport::wire
