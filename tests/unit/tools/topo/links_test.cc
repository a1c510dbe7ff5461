#include "tools/topo/links.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/machines.h"

namespace gdr::tools::topo {
namespace {

using topology::flat;

Machine linked(std::vector<NvLink> links) {
  Machine machine = flat(3, 1);
  machine.gpu_links_known = true;
  machine.gpus[0].nvlinks = std::move(links);
  return machine;
}

TEST(GpuLinksText, EveryKind_IsShort) {
  Machine machine =
      linked({NvLink{NvLink::To::kSwitch, {}, 10}, NvLink{NvLink::To::kSwitch, {}, 8}});
  machine.gpus[0].c2c_links = 5;
  EXPECT_EQ(gpu_links_text(machine, 0), "NVLink x18, C2C x5");
  EXPECT_EQ(gpu_links_text(machine, 1), "");
  machine = linked({NvLink{NvLink::To::kGpu, machine.gpus[1].bdf, 2},
                    NvLink{NvLink::To::kGpu, machine.gpus[2].bdf, 4}});
  EXPECT_EQ(gpu_links_text(machine, 0), "NVLink to GPU1 x2, GPU2 x4");
  EXPECT_EQ(gpu_links_text(machine, 1), "NVLink to GPU0 x2");  // stated by GPU0 alone
  EXPECT_EQ(gpu_links_text(linked({NvLink{NvLink::To::kCpu, {}, 0}}), 0), "NVLink to the CPU");
  machine = flat(2, 0);
  EXPECT_EQ(gpu_links_text(machine, 0), "NVLink unknown");
  machine.gpus[0].ids.vendor = 0x1002;
  EXPECT_EQ(gpu_links_text(machine, 0), "xGMI unknown");
}

}  // namespace
}  // namespace gdr::tools::topo
