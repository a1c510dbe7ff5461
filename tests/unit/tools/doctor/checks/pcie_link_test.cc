// What is wrong with links is judged by tools/topo/check_links.cc, which has tests of its own.
#include "tests/unit/tools/doctor/made_pci.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

topology::PciLink& current_of(MadePci* made, int bus) {
  return made->host.pci_states[topology::bdf_of(bus)].current;
}

// GPU0 is 0000:1a:00.0, and mlx5_0 0000:1b:00.0.
TEST(PcieLink, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      pcie_link(),
      {{"as supported", [](MadePci*) {}, Verdict::kOk, "", "3 PCIe links have the width"},
       {"idle GPU",
        [](MadePci* made) {
          current_of(made, 0x1a) = {2.5, 16};
        },
        Verdict::kOk, "", "idle"},
       {"GPU with fewer lanes",
        [](MadePci* made) {
          current_of(made, 0x1a) = {32, 8};
        },
        Verdict::kFailure, "", "runs at x8, and x16 is possible"},
       {"HCA below what its port needs",
        [](MadePci* made) {
          current_of(made, 0x1b) = {16, 16};
        },
        Verdict::kFailure, "", "it carries 252 Gb/s, the HCA's ports 400 Gb/s"},
       {"HCA that carries what its port needs",
        [](MadePci* made) {
          current_of(made, 0x1b) = {16, 16};
          made->machine().hcas[0].ports[0].speed_mbps = 200000;
        },
        Verdict::kWarning, "", "it carries 252 Gb/s, the HCA's ports 200 Gb/s"},
       {"HCA without an active port",
        [](MadePci* made) {
          current_of(made, 0x1b) = {32, 8};
          made->machine().hcas[0].ports[0].state = topology::Port::State::kDown;
        },
        Verdict::kWarning, "", "runs at x8"},
       {"virtual machine",
        [](MadePci* made) {
          made->make_virtual();
          current_of(made, 0x1a) = {32, 8};
        },
        Verdict::kWarning, "", "runs at x8"},
       {"card of less than its peers",
        [](MadePci* made) {
          topology::Machine machine = one_switch();
          machine.gpus.push_back(topology::make_gpu(topology::bdf_of(0x1c), machine.gpus[0].at));
          machine.gpus[1].link.width = 8;
          made->set(machine);
          current_of(made, 0x1c).width = 8;
        },
        Verdict::kWarning, "", "the PCIe link has x8"},
       {"nothing stated", [](MadePci* made) { made->host.pci_states.clear(); }, Verdict::kUnknown,
        "", "the kernel does not state"},
       {"no device", [](MadePci* made) { made->set(topology::flat(0, 0)); }, Verdict::kNothing, "",
        ""},
       {"no topology", [](MadePci* made) { made->host.inspection.reset(); }, Verdict::kUnknown, "",
        ""}});
}

}  // namespace
}  // namespace gdr::tools::doctor
