#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

void add_mixed_ports(MadeFabric* made) {
  made->add_infiniband();
  made->add_infiniband();
  made->add_roce();
}

TEST(LinkLayer, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      link_layer(),
      {{"one", [](MadeFabric* made) { made->add_infiniband(); }, Verdict::kOk, "",
        "all on InfiniBand"},
       {"two, without GPUs", add_mixed_ports, Verdict::kOk, "", "mlx5_2:1 on Ethernet"},
       {"two, of rails",
        [](MadeFabric* made) {
          add_mixed_ports(made);
          made->add_rails();
          topology::Machine& machine = made->host.inspection->decision.machine;
          machine.hcas[2].ports[0].link_layer = topology::Port::LinkLayer::kEthernet;
        },
        Verdict::kWarning, "mlx5_2:1", "link layer Ethernet", "NCCL_IB_HCA=^=mlx5_2:1"},
       {"unknown", [](MadeFabric* made) { made->add_roce().link_layer = ""; }, Verdict::kUnknown},
       {"unspecified beside Ethernet",
        [](MadeFabric* made) {
          made->add_roce().link_layer = "Unspecified";
          made->add_roce();
        },
        Verdict::kOk, "", "all on Ethernet (RoCE)"}});
}

}  // namespace
}  // namespace gdr::tools::doctor
