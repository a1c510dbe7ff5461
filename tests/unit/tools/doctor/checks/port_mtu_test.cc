#include "tests/unit/tools/doctor/facts/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

// RoCE ports of that RDMA MTU, with the MTU of each one's interface.
auto roce_mtus(int active, std::vector<int> netdevs, bool has_gpus = false) {
  return [=](MadeFabric* made) {
    for (size_t i = 0; i < netdevs.size(); ++i) {
      made->add_roce().active_mtu = active;
      made->netdev(i).mtu = netdevs[i];
    }
    if (has_gpus) made->add_rails();
  };
}

// Ports of InfiniBand, each with the MTU and the greatest one.
auto infiniband_mtus(std::vector<std::pair<int, int>> mtus) {
  return [=](MadeFabric* made) {
    for (const auto& [active, most] : mtus) {
      RdmaPort& port = made->add_infiniband();
      port.active_mtu = active;
      port.max_mtu = most;
    }
  };
}

// A RoCE port of which verbs shows nothing.
auto without_verbs(int netdev) {
  return [=](MadeFabric* made) {
    RdmaPort& port = made->add_roce();
    port.active_mtu.reset();
    port.max_mtu.reset();
    made->netdev(0).mtu = netdev;
  };
}

TEST(PortMtu, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "port-mtu", {{"largest everywhere",
                    [](MadeFabric* made) {
                      made->add_roce();
                      made->add_infiniband();
                    },
                    Verdict::kOk},
                   {"small interface beside a large one",
                    [](MadeFabric* made) {
                      roce_mtus(4096, {4200, 1500})(made);
                      made->port(1).active_mtu = 1024;
                    },
                    Verdict::kWarning, "mlx5_1:1",
                    "RDMA MTU 1024 of 4096, eth1 has MTU 1500; other rails have 4096", "",
                    "ip link set dev 'eth1' mtu 4200"},
                   {"small everywhere", roce_mtus(1024, {1500, 1500}), Verdict::kOk},
                   {"small everywhere, with GPUs", roce_mtus(1024, {1500, 1500}, true),
                    Verdict::kWarning, "", "", "", "ip link set dev 'eth0' mtu 9000"},
                   {"one byte less than 4096 and the headers take", without_verbs(4191),
                    Verdict::kOk, "", "RDMA MTU 2048 at most"},
                   {"as much as 4096 and the headers take", without_verbs(4192), Verdict::kOk, "",
                    "RDMA MTU 4096 at most"},
                   {"InfiniBand below its maximum", infiniband_mtus({{2048, 4096}}),
                    Verdict::kWarning, "", "", "opensm"},
                   {"below what the interface allows", roce_mtus(1024, {9000}), Verdict::kWarning,
                    "", "", "", ""},
                   {"maximum below that of peers", infiniband_mtus({{4096, 4096}, {2048, 2048}}),
                    Verdict::kWarning, "mlx5_1:1", "RDMA MTU 2048 of 2048; other rails have 4096"},
                   {"equal maximums", infiniband_mtus({{2048, 2048}, {2048, 2048}}), Verdict::kOk},
                   {"without verbs and interface",
                    [](MadeFabric* made) {
                      made->add_roce().active_mtu.reset();
                      made->host.ports.netdevs.clear();
                    },
                    Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor
