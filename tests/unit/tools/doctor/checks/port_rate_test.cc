#include "tests/unit/tools/doctor/facts/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

TEST(PortRate, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "port-rate",
      {{"equal peers",
        [](MadeFabric* made) {
          made->add_infiniband();
          made->add_infiniband();
        },
        Verdict::kOk},
       {"rail below its peers",
        [](MadeFabric* made) {
          for (int i = 0; i < 4; ++i) made->add_infiniband();
          topology::Machine machine = topology::with_nvlink();
          machine.hcas[2].ports[0].speed_mbps /= 2;
          made->host.inspection.emplace();
          made->host.inspection->decision = topology::scene_of(machine);
        },
        Verdict::kFailure, "mlx5_2:1"},
       {"port below its peers, without GPUs",
        [](MadeFabric* made) {
          made->add_roce();
          made->add_roce().rate = "25 Gb/sec (1X EDR)";
        },
        Verdict::kWarning, "mlx5_1:1"},
       {"port of another model",
        [](MadeFabric* made) {
          made->add_roce();
          made->add_roce().rate = "25 Gb/sec (1X EDR)";
          made->hca(1).pci_ids = "15b3:1015";
        },
        Verdict::kOk},
       {"one lane", [](MadeFabric* made) { made->add_infiniband().rate = "100 Gb/sec (1X NDR)"; },
        Verdict::kWarning, "", "one lane of four"},
       {"two lanes", [](MadeFabric* made) { made->add_infiniband().rate = "200 Gb/sec (2X NDR)"; },
        Verdict::kOk},
       {"SDR", [](MadeFabric* made) { made->add_infiniband().rate = "10 Gb/sec (4X SDR)"; },
        Verdict::kWarning},
       {"unknown", [](MadeFabric* made) { made->add_roce().rate = "fast"; }, Verdict::kUnknown},
       {"down",
        [](MadeFabric* made) {
          RdmaPort& port = made->add_infiniband();
          port.state = LinkState::kDown;
          port.rate = "10 Gb/sec (4X SDR)";
        },
        Verdict::kOk}});
}

void add_mixed_ports(MadeFabric* made) {
  made->add_infiniband();
  made->add_infiniband();
  made->add_roce();
}

TEST(LinkLayer, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "link-layer",
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
