#include "softhca/datapath/segments.h"

#include <gtest/gtest.h>

#include <vector>

namespace softhca {
namespace {

SegmentList list_of(std::initializer_list<Segment> segments) {
  SegmentList list;
  for (const Segment& segment : segments) list.add(segment.address, segment.bytes, segment.gpu);
  return list;
}

TEST(SegmentList, Add_SumsBytesAndLeavesEmptySegmentsOut) {
  SegmentList list = list_of({{100, 8, -1}, {200, 0, 3}, {300, 4, 1}});
  EXPECT_EQ(list.count, 2u);
  EXPECT_EQ(list.bytes, 12u);
  EXPECT_EQ(list.gpu, 1);
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

TEST(ForEachPiece, ListsCutDifferently_PiecesAreContiguousInBoth) {
  SegmentList a = list_of({{100, 3, -1}, {200, 5, -1}});
  SegmentList b = list_of({{500, 6, -1}, {600, 2, -1}});
  std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> pieces;
  for_each_piece(a, b, [&](void* in_a, void* in_b, uint64_t bytes) {
    pieces.emplace_back(reinterpret_cast<uint64_t>(in_a), reinterpret_cast<uint64_t>(in_b), bytes);
  });
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0], std::tuple(100, 500, 3));
  EXPECT_EQ(pieces[1], std::tuple(200, 503, 3));
  EXPECT_EQ(pieces[2], std::tuple(203, 600, 2));
}

}  // namespace
}  // namespace softhca
