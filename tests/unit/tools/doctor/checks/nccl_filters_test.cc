#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

// The variables of a job on this machine, which has an HCA and an interface that is up.
auto job(const config::Environment& environment) {
  return [environment](MadeHost* made) {
    made->write_files({{"/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"},
                       {"/sys/class/net/eth0/operstate", "up\n"},
                       {"/sys/class/net/eth1/operstate", "down\n"}});
    made->host.is_live = true;
    made->host.environment = environment;
  };
}

// A variable on a machine that shows nothing.
auto bare(const char* name, const char* value) {
  return [=](MadeHost* made) { made->host.environment[name] = value; };
}

TEST(NcclFilters, EachCase_HasItsVerdict) {
  expect_worst<MadeHost>(
      "nccl-filters",
      {{"nothing set", job({}), Verdict::kOk},
       {"nothing set on another machine", [](MadeHost*) {}, Verdict::kUnknown},
       {"HCA", job({{"NCCL_IB_HCA", "mlx5"}}), Verdict::kOk, "",
        "mlx5 (environment) accepts 1 of 1 ports"},
       {"HCAs of other machines", job({{"NCCL_IB_HCA", "mlx5_0,mlx5_7,mlx5_8"}}), Verdict::kWarning,
        "", "'mlx5_7', 'mlx5_8' match no port of this machine, whose HCAs are mlx5_0"},
       {"name that others begin with",
        [](MadeHost* made) {
          job({{"NCCL_IB_HCA", "mlx5_1:1"}})(made);
          for (const char* name : {"mlx5_1", "mlx5_10"}) {
            made->write(std::string("/sys/class/infiniband/") + name + "/ports/1/state",
                        "4: ACTIVE");
          }
        },
        Verdict::kWarning, "", "mlx5_1:1 (environment): the list also accepts mlx5_10 by 'mlx5_1'",
        "if the other HCAs are not meant: export NCCL_IB_HCA==mlx5_1:1"},
       {"blanks", job({{"NCCL_IB_HCA", "mlx5_0, mlx5_0"}}), Verdict::kWarning, "", "",
        "export NCCL_IB_HCA=mlx5_0,mlx5_0"},
       {"blanks for some commas", job({{"NCCL_IB_HCA", "mlx5_0,mlx5_1 \tmlx5_2"}}),
        Verdict::kWarning, "", "", "export NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2"},
       {"blanks for all commas", job({{"NCCL_IB_HCA", "^ mlx5_0 mlx5_1"}}), Verdict::kFailure, "",
        "", "export NCCL_IB_HCA=^mlx5_0,mlx5_1, or name HCAs of this machine"},
       {"blanks with the plugin", job({{"NCCL_IB_HCA", " mlx5_0"}, {"NCCL_NET_PLUGIN", "gdr"}}),
        Verdict::kOk},
       {"blanks alone", job({{"NCCL_IB_HCA", " "}}), Verdict::kFailure, "", "",
        "unset NCCL_IB_HCA, or name HCAs of this machine"},
       {"no HCA matches", job({{"NCCL_IB_HCA", "ib0"}}), Verdict::kFailure},
       {"all HCAs excluded", job({{"NCCL_IB_HCA", "^mlx5"}}), Verdict::kFailure},
       {"no HCA here", bare("NCCL_IB_HCA", "mlx5_0"), Verdict::kOk},
       {"interface", job({{"NCCL_SOCKET_IFNAME", "eth"}}), Verdict::kOk},
       {"interfaces with blanks", job({{"NCCL_SOCKET_IFNAME", "eth0, eth1"}}), Verdict::kWarning,
        "", "these names match nothing there", "export NCCL_SOCKET_IFNAME=eth0,eth1"},
       {"interface that is down", job({{"NCCL_SOCKET_IFNAME", "=eth1"}}), Verdict::kFailure, "", "",
        "ip link set dev 'eth1' up, or name another interface"},
       {"no interface matches", job({{"NCCL_SOCKET_IFNAME", "bond0"}}), Verdict::kFailure, "",
        "bond0 (environment) matches no interface of this machine (eth0, eth1)"},
       {"no interface can be read", job({{"NCCL_SOCKET_IFNAME", "eth0 eth1"}}), Verdict::kFailure,
        "", "", "export NCCL_SOCKET_IFNAME=eth0,eth1, or name one of them"},
       {"interface without /sys", bare("NCCL_SOCKET_IFNAME", "eth0"), Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor
