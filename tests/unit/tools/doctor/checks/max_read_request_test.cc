#include "tests/unit/tools/doctor/made_pci.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// Sets the register in the configuration space and what is read of it.
void set_read_request(MadePci* made, int bytes, unsigned control) {
  made->config(kMadeHca, config_with_control(control));
  made->host.pci_states[topology::bdf_of(0x1b)].max_read_request = bytes;
}

TEST(MaxReadRequest, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      max_read_request(),
      {{"recommended", [](MadePci*) {}, Verdict::kOk, "",
        "Max_Read_Request_Size: mlx5_0 4096 bytes"},
       {"default", [](MadePci* made) { set_read_request(made, 512, 0x2910); }, Verdict::kOk, "",
        "recommend 4096"},
       {"in a virtual machine",
        [](MadePci* made) {
          set_read_request(made, 128, 0);
          made->make_virtual();
        },
        Verdict::kUnknown},
       {"virtual function",
        [](MadePci* made) {
          set_read_request(made, 128, 0);
          made->machine().hcas[0].physical_function = topology::bdf_of(0x1b, 0, 1);
        },
        Verdict::kNothing},
       {"no HCA", [](MadePci* made) { made->set(topology::flat(1, 0)); }, Verdict::kNothing},
       {"no topology", [](MadePci* made) { made->host.inspection.reset(); }, Verdict::kUnknown}});
}

TEST(MaxReadRequest, SmallSize_IsAWarningWithAStepAndItsUndo) {
  MadePci made;
  set_read_request(&made, 128, 0x0910);
  const Observation seen = worst_of(max_read_request(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "mlx5_0 (0000:1b:00.0)");
  EXPECT_THAT(seen.evidence, HasSubstr("is 128 bytes, 4096 is usual"));
  ASSERT_EQ(seen.steps.size(), 1u);
  EXPECT_EQ(seen.steps[0].command, "setpci -s 0000:1b:00.0 CAP_EXP+8.w=5000:7000");
  EXPECT_EQ(seen.steps[0].undo, "setpci -s 0000:1b:00.0 CAP_EXP+8.w=0910:7000");
}

TEST(MaxReadRequest, LessThanAPeer_IsRaisedToThePeers) {
  topology::Machine machine = one_switch();
  machine.gpus.push_back(topology::make_gpu(topology::bdf_of(0x1c), machine.gpus[0].at));
  machine.hcas.push_back(topology::make_hca("mlx5_1", topology::bdf_of(0x1d), machine.hcas[0].at));
  MadePci made(machine);
  made.host.pci_states[topology::bdf_of(0x1d)].max_read_request = 1024;
  set_read_request(&made, 512, 0x2910);
  const Observations seen = max_read_request().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].evidence, HasSubstr("is 512 bytes, that of its peers 1024"));
  EXPECT_THAT(seen[0].steps.at(0).command, HasSubstr("=3000:7000"));
  EXPECT_THAT(seen[1].evidence, HasSubstr("mlx5_1 1024 bytes"));
}

TEST(MaxReadRequest, WithoutRoot_IsUnknown) {
  MadePci made;
  set_read_request(&made, 0, 0);
  const Observation seen = worst_of(max_read_request(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kUnknown);
  EXPECT_EQ(seen.needs, kNeedsRoot);
}

}  // namespace
}  // namespace gdr::tools::doctor
