#include "tools/topo/layout.h"

#include <gtest/gtest.h>

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

// Expects cards and tags to lie apart, each either in a frame or out of it, and frames alike.
void expect_tidy(const Layout& layout) {
  std::vector<Rect> cards = layout.gpus;
  cards.insert(cards.end(), layout.hcas.begin(), layout.hcas.end());
  for (const Layout::Tag& tag : layout.tags) cards.push_back(tag.rect);
  const Rect picture{0, 0, layout.width, layout.height};
  for (size_t i = 0; i < cards.size(); ++i) {
    EXPECT_GT(cards[i].width, 0);
    EXPECT_TRUE(contains(picture, cards[i]));
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(cards[i], cards[j])) << i << " " << j;
  }
  for (size_t i = 0; i < layout.frames.size(); ++i) {
    const Rect& frame = layout.frames[i].rect;
    EXPECT_TRUE(contains(picture, frame));
    for (const Rect& card : cards) EXPECT_TRUE(contains(frame, card) || !overlap(frame, card));
    for (size_t j = 0; j < i; ++j) {
      const Rect& earlier = layout.frames[j].rect;
      EXPECT_TRUE(contains(earlier, frame) || !overlap(earlier, frame)) << i << " " << j;
    }
  }
}

TEST(Layout, KnownMachines_LieInThePictureAndApart) {
  for (const Machine& machine :
       {two_sockets_with_switches(), flat(16, 32), flat(1, 9), lopsided()}) {
    expect_tidy(lay_out(scene_of(machine)));
  }
}

TEST(Layout, RandomMachines_LieInThePictureAndApart) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    expect_tidy(lay_out(scene_of(random_picture(seed))));
  }
}

TEST(Layout, NumaNodeWithoutDevices_IsASmallBox) {
  Machine machine = two_sockets_with_switches();
  for (int i = 2; i < 6; ++i) machine.numa_nodes.push_back(NumaNode{i, i % 2, ""});
  Layout layout = lay_out(scene_of(machine));
  int empty = 0;
  for (const Layout::Frame& frame : layout.frames) {
    if (frame.kind != TreeNode::Kind::kNumaNode || frame.rect.height > 60) continue;
    EXPECT_LT(frame.rect.width, 200);
    ++empty;
  }
  EXPECT_EQ(empty, 4);
}

TEST(Layout, HcaOfAGpuBesideIt_LiesBelowIt) {
  Layout layout = lay_out(scene_of(flat(4, 4)));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(layout.gpus[i].x, layout.hcas[i].x);
    EXPECT_GT(layout.hcas[i].y, layout.gpus[i].y);
  }
}

}  // namespace
}  // namespace gdr::tools::topo
