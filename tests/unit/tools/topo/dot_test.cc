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

TEST(Dot, EmptyMachine_IsAGraph) {
  EXPECT_THAT(dot_text(scene_of(Machine{})), HasSubstr("graph rails {"));
}

TEST(Dot, Machine_HasClustersDevicesAndLines) {
  std::string text = dot_text(scene_of(two_sockets_with_switches()), "2026-11-22");
  for (const char* part : {"subgraph cluster_0 {\n    label=\"package 0\"",
                           "label=\"switch 0000:71:00.0\"", "label=\"mlx5_3\\n0000:74:00.0",
                           "label=\"GPU7\\n", "style=solid", "label=\"PIX, 32 GT/s x16\"",
                           "label=\"Rails: made by hand\\n2 x GenuineIntel", "2026-11-22\";"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  std::string colour = rail_colour(3);
  EXPECT_THAT(text, HasSubstr("gpu7 -- hca3 [color=\"" + colour + "\""));
}

TEST(Dot, LinksOfGpus_AreLines) {
  Machine machine = with_nvlink();
  machine.gpus[0].nvlinks.push_back(NvLink{NvLink::To::kGpu, machine.gpus[1].bdf, 2});
  machine.gpus[2].c2c_links = 10;
  std::string text = dot_text(scene_of(machine));
  EXPECT_THAT(text, HasSubstr("nvswitch [label=\"NVSwitch\""));
  EXPECT_THAT(text, HasSubstr("gpu7 -- nvswitch [color=\"#4d7c0f\", label=\"NV18\"]"));
  EXPECT_THAT(text, HasSubstr("gpu0 -- gpu1 [color=\"#4d7c0f\", label=\"NV2\"]"));
  EXPECT_THAT(text, HasSubstr("gpu2 -- \"CPUs of NUMA node 0\""));
}

TEST(Dot, SpecialCharacters_AreEscaped) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "a\"b\\c";
  EXPECT_THAT(dot_text(scene_of(machine)), HasSubstr("label=\"a\\\"b\\\\c\\n"));
}

}  // namespace
}  // namespace gdr::tools::topo
