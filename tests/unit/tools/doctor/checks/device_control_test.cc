#include "tests/unit/tools/doctor/facts/made_pci.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// Max_Read_Request_Size as it is read, beside the register in the configuration space.
auto read_request(int bytes, unsigned control, bool is_virtual = false) {
  return [=](MadePci* made) {
    made->config(kMadeHca, config_with_control(control));
    made->host.pci_states[topology::bdf_of(0x1b)].max_read_request = bytes;
    if (is_virtual) made->make_virtual();
  };
}

void make_virtual_function(MadePci* made) {
  made->machine().hcas[0].physical_function = topology::bdf_of(0x1b, 0, 1);
}

TEST(MaxReadRequest, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      "max-read-request",
      {{"recommended", [](MadePci*) {}, Verdict::kOk, "", "Max_Read_Request_Size is 4096 bytes"},
       {"default", read_request(512, 0x2910), Verdict::kOk, "", "recommend 4096"},
       {"small", read_request(128, 0x0910), Verdict::kWarning, "mlx5_0 (0000:1b:00.0)",
        "is 128 bytes, 4096 is usual", "setpci",
        "setpci -s 0000:1b:00.0 CAP_EXP+8.w=5000:7000"},
       {"in a virtual machine", read_request(128, 0, true), Verdict::kUnknown},
       {"without root", read_request(0, 0), Verdict::kUnknown, "", "", kNeedsRoot},
       {"virtual function",
        [](MadePci* made) {
          read_request(128, 0)(made);
          make_virtual_function(made);
        },
        Verdict::kNothing},
       {"no HCA", [](MadePci* made) { made->set(topology::flat(1, 0)); }, Verdict::kNothing},
       {"no topology", [](MadePci* made) { made->host.inspection.reset(); }, Verdict::kUnknown}});
}

TEST(MaxReadRequest, LessThanAPeer_IsRaisedToThePeers) {
  topology::Machine machine = one_switch();
  machine.gpus.push_back(topology::make_gpu(topology::bdf_of(0x1c), machine.gpus[0].at));
  machine.hcas.push_back(topology::make_hca("mlx5_1", topology::bdf_of(0x1d), machine.hcas[0].at));
  MadePci made(machine);
  made.host.pci_states[topology::bdf_of(0x1d)].max_read_request = 1024;
  read_request(512, 0x2910)(&made);
  const Observations seen = seen_by("max-read-request", made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].evidence, HasSubstr("is 512 bytes, that of its peers 1024"));
  EXPECT_THAT(seen[0].steps.at(0), HasSubstr("=3000:7000"));
  EXPECT_THAT(seen[1].evidence, HasSubstr("is 1024 bytes"));
}

}  // namespace
}  // namespace gdr::tools::doctor
