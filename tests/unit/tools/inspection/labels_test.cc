#include "tools/inspection/labels.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"

namespace gdr::tools::topo {
namespace {

using topology::flat;
using topology::scene_of;

TEST(GpuGpuText, NvlinkBetweenTwoGpus_CountsTheirLinksOnly) {
  Machine machine = flat(3, 0);
  machine.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[1].bdf, 4},
                             NvLink{NvLink::To::kGpu, machine.gpus[2].bdf, 2}};
  RailDecision scene = scene_of(machine);
  EXPECT_EQ(gpu_gpu_text(scene, 0, 1), "NV4");
  EXPECT_EQ(gpu_gpu_text(scene, 2, 0), "NV2");
}

TEST(CpuList, Mask_IsRanges) {
  EXPECT_EQ(cpu_list("0000ffff,ffffffff,00000000,0000ffff,ffffffff"), "0-47,96-143");
  EXPECT_EQ(cpu_list("1"), "0");
  EXPECT_EQ(cpu_list("00000000,80000005"), "0,2,31");
  EXPECT_EQ(cpu_list("00000001,80000000"), "31-32");
}

TEST(CpuList, MalformedMask_IsNotAvailable) {
  for (const char* mask : {"", "00000000", ",", "xyz", "ffffffff,", "1ffffffff"}) {
    EXPECT_EQ(cpu_list(mask), "N/A") << mask;
  }
}

TEST(CleanText, ControlCharactersAndMalformedUtf8_AreReplaced) {
  EXPECT_EQ(clean_text("mlx5_0 \u00fc\u20ac\U0001f600"), "mlx5_0 \u00fc\u20ac\U0001f600");
  EXPECT_EQ(clean_text("a\nb\x7f"), "a\ufffdb\ufffd");
  EXPECT_EQ(clean_text("\xc3"), "\ufffd");                      // cut short
  EXPECT_EQ(clean_text("\xc0\xaf"), "\ufffd\ufffd");            // overlong
  EXPECT_EQ(clean_text("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");  // surrogate
  EXPECT_EQ(clean_text("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(clean_text("\xef\xbf\xbf"), "\ufffd");  // not in XML
  EXPECT_EQ(clean_text("\xc2\x85"), "\ufffd");      // C1 control
}

}  // namespace
}  // namespace gdr::tools::topo
