#include "transport/pairs/work_id.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

TEST(WorkId, EveryField_SurvivesEncoding) {
  for (WorkKind kind : {WorkKind::kChunk, WorkKind::kStatement}) {
    for (uint32_t pair : {0u, 127u, 255u}) {
      for (uint32_t epoch : {0u, 1u, 0xffffu}) {
        for (uint32_t ordinal : {0u, 1u, 0xffffffffu}) {
          const WorkId id{kind, pair, epoch, ordinal};
          EXPECT_EQ(decode_work_id(encode(id)), id);
        }
      }
    }
  }
}

TEST(WorkId, EpochBeyondItsWidth_IsOfTheSameEpochOnly) {
  const WorkId id = decode_work_id(encode({WorkKind::kReceive, 3, 0x1fffe, 7}));
  EXPECT_EQ(id.pair, 3u);
  EXPECT_TRUE(is_of_epoch(id, 0x1fffe));
  EXPECT_FALSE(is_of_epoch(id, 0x1ffff));
}

TEST(WorkId, OrdinalOf32Bits_IsExtendedFromANumberNearby) {
  EXPECT_EQ(whole_ordinal(5, 7), 5u);
  EXPECT_EQ(whole_ordinal(7, 5), 7u);
  EXPECT_EQ(whole_ordinal(0xffffffff, 0x300000002), 0x2ffffffffu);
  EXPECT_EQ(whole_ordinal(1, 0x2fffffffe), 0x300000001u);
}

}  // namespace
}  // namespace gdr::transport
