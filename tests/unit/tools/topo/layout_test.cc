#include "tools/topo/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/tools/topo/picture.h"

namespace gdr::tools::topo {
namespace {

using topology::flat;
using topology::lopsided;
using topology::scene_of;
using topology::two_sockets_with_switches;

bool contains(const Rect& outer, const Rect& inner) {
  return outer.x <= inner.x && outer.y <= inner.y &&
         inner.x + inner.width <= outer.x + outer.width &&
         inner.y + inner.height <= outer.y + outer.height;
}

// The upright part of a line, as wide as lines are drawn.
Rect lane_of(const Layout::Line& line) {
  const auto [top, bottom] = std::minmax(line.tag.y, line.port.y);
  return Rect{line.lane_x - 2, top, 4, bottom - top + line.tag.height};
}

// Expects cards to lie apart, each either in a box or out of it, and boxes alike; and lines beside
// the boxes, no two in one place, from a strip of the GPU's card to one of the HCA's.
void expect_tidy(const RailDecision& decision) {
  const Layout layout = lay_out(decision);
  std::vector<Rect> cards = layout.gpus;
  cards.insert(cards.end(), layout.hcas.begin(), layout.hcas.end());
  const Rect picture{0, 0, layout.width, layout.bottom};
  for (size_t i = 0; i < cards.size(); ++i) {
    EXPECT_GT(cards[i].width, 0);
    EXPECT_TRUE(contains(picture, cards[i]));
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(cards[i], cards[j])) << i << " " << j;
  }
  for (size_t i = 0; i < layout.boxes.size(); ++i) {
    const Rect& box = layout.boxes[i].rect;
    EXPECT_TRUE(contains(picture, box));
    for (const Rect& card : cards) EXPECT_TRUE(contains(box, card) || !overlap(box, card));
    for (size_t j = 0; j < i; ++j) {
      const Rect& earlier = layout.boxes[j].rect;
      EXPECT_TRUE(contains(earlier, box) || !overlap(earlier, box)) << i << " " << j;
    }
  }
  for (size_t i = 0; i < layout.lines.size(); ++i) {
    const Layout::Line& line = layout.lines[i];
    EXPECT_TRUE(contains(layout.gpus[line.pair.gpu], line.tag));
    EXPECT_TRUE(contains(
        layout.hcas[static_cast<size_t>(decision.plan.rails[line.pair.rail].port.hca)], line.port));
    const Rect lane = lane_of(line);
    EXPECT_TRUE(contains(picture, lane));
    for (const Layout::Box& box : layout.boxes) EXPECT_FALSE(overlap(box.rect, lane));
    for (const Rect& card : cards) EXPECT_FALSE(overlap(card, lane));
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(overlap(lane_of(layout.lines[j]), lane)) << i << " " << j;
      EXPECT_FALSE(overlap(layout.lines[j].tag, line.tag)) << i << " " << j;
    }
  }
}

TEST(Layout, KnownMachines_LieInThePictureAndApart) {
  for (const Machine& machine :
       {two_sockets_with_switches(), flat(16, 32), flat(1, 9), lopsided()}) {
    expect_tidy(scene_of(machine));
  }
}

TEST(Layout, RandomMachines_LieInThePictureAndApart) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    expect_tidy(scene_of(random_picture(seed)));
  }
}

TEST(Layout, HcaOfAGpuBesideIt_LiesBelowIt) {
  const Layout layout = lay_out(scene_of(flat(4, 4)));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GT(layout.hcas[i].y, layout.gpus[i].y);
    if (i < 3) EXPECT_LT(layout.hcas[i].y, layout.gpus[i + 1].y);
  }
}

}  // namespace
}  // namespace gdr::tools::topo
