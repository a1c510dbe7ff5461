#include "tools/topo/layout.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/machines.h"

namespace gdr::tools::topo {
namespace {

using topology::flat;
using topology::lopsided;
using topology::scene_of;
using topology::two_sockets_with_switches;

bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

TEST(Layout, Cards_LieInThePictureAndApart) {
  for (const Machine& machine :
       {two_sockets_with_switches(), flat(16, 32), flat(1, 9), lopsided()}) {
    Layout layout = lay_out(scene_of(machine));
    std::vector<Rect> cards = layout.gpus;
    cards.insert(cards.end(), layout.hcas.begin(), layout.hcas.end());
    for (size_t i = 0; i < cards.size(); ++i) {
      EXPECT_GT(cards[i].width, 0);
      EXPECT_LE(cards[i].x + cards[i].width, layout.width);
      EXPECT_LE(cards[i].y + cards[i].height, layout.height);
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(cards[i], cards[j])) << i << " " << j;
    }
  }
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
