#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

TEST(NvPeerMem, Loaded_IsAWarningWithBothCommands) {
  MadeHost made;
  made.write("/sys/module/nv_peer_mem/version", "1.3\n");
  made.write("/sys/kernel/mm/memory_peers/nv_mem/version", "1.3\n");
  const Observations seen = nv_peer_mem().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].evidence, ::testing::HasSubstr("nv_peer_mem 1.3 is loaded"));
  ASSERT_EQ(seen[0].steps.size(), 1u);
  EXPECT_EQ(seen[0].steps[0].command, "modprobe -r nv_peer_mem && modprobe nvidia-peermem");
  EXPECT_EQ(seen[0].steps[0].undo, "modprobe -r nvidia-peermem && modprobe nv_peer_mem");
}

TEST(NvPeerMem, LoadedBelowAContainer_IsAWarningWithoutAStep) {
  MadeHost made;
  made.write("/sys/module/nv_peer_mem/version", "1.3\n");
  made.host.process.container = Container::kOther;
  const Observations seen = nv_peer_mem().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].steps.empty());
}

TEST(NvPeerMem, NvidiaPeermem_IsOk) {
  MadeHost made;
  made.write("/sys/module/nvidia_peermem/version", "570.133.20\n");
  made.write("/sys/kernel/mm/memory_peers/nv_mem/version", "570.133.20\n");
  EXPECT_EQ(verdict_of(nv_peer_mem(), made.host), Verdict::kOk);
}

TEST(NvPeerMem, WithoutSysfs_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(nv_peer_mem(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
