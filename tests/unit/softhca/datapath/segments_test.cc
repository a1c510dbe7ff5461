#include "softhca/datapath/segments.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

SegmentList list_of(std::initializer_list<Segment> segments) {
  SegmentList list;
  for (const Segment& segment : segments) list.add(segment.address, segment.bytes, segment.gpu);
  return list;
}

TEST(SegmentList, Truncate_CutsTheLastSegmentAndForgetsLaterGpus) {
  SegmentList list = list_of({{100, 8, -1}, {200, 8, -1}, {300, 8, 1}});
  list.truncate(12);
  EXPECT_EQ(list.count, 2u);
  EXPECT_EQ(list.bytes, 12u);
  EXPECT_EQ(list.items[1].bytes, 4u);
  EXPECT_EQ(list.gpu, -1);
}

TEST(SegmentList, TruncateAtABoundary_DropsTheRest) {
  SegmentList list = list_of({{100, 8, -1}, {200, 8, -1}});
  list.truncate(8);
  EXPECT_EQ(list.count, 1u);
}

}  // namespace
}  // namespace softhca
