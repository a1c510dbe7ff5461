#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"
#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using ::testing::HasSubstr;
using topology::flat;
using topology::scene_of;
using topology::two_sockets_with_switches;
using topology::with_nvlink;

TEST(Dot, SameMachine_IsTheSameGraph) {
  EXPECT_EQ(dot_text(scene_of(with_nvlink())), dot_text(scene_of(with_nvlink())));
}

TEST(Dot, EmptyMachine_IsAGraph) {
  EXPECT_THAT(dot_text(scene_of(Machine{})), HasSubstr("graph rails {"));
}

TEST(Dot, Machine_HasClustersDevicesAndLines) {
  std::string text = dot_text(scene_of(two_sockets_with_switches()));
  for (const char* part :
       {"subgraph cluster_package_0", "label=\"switch 0000:71:00.0\"",
        "label=\"mlx5_3\\n0000:74:00.0", "label=\"GPU7\\n", "gpu7 -- hca3", "style=solid"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  std::string colour = rail_colour(3);
  EXPECT_THAT(text, HasSubstr("gpu7 -- hca3 [color=\"" + colour + "\""));
}

TEST(Dot, SpecialCharacters_AreEscaped) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "a\"b\\c";
  EXPECT_THAT(dot_text(scene_of(machine)), HasSubstr("label=\"a\\\"b\\\\c\\n"));
}

}  // namespace
}  // namespace gdr::tools::topo
