#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

void add_machine(MadeHost* made) {
  made->write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  made->write("/sys/class/infiniband/mlx5_0/ports/1/pkeys/0", "0xffff\n");
  made->write("/sys/class/infiniband/mlx5_0/ports/1/pkeys/1", "0x0000\n");
  made->write("/sys/class/net/eth0/operstate", "up\n");
  made->write("/sys/class/net/eth1/operstate", "down\n");
}

Observations filters_seen_with(const config::Environment& environment) {
  MadeHost made;
  add_machine(&made);
  made.host.is_live = true;
  made.host.environment = environment;
  return nccl_filters().run(made.host);
}

TEST(NcclFilters, NothingSet_IsOk) { EXPECT_EQ(filters_seen_with({})[0].verdict, Verdict::kOk); }

TEST(NcclFilters, HcaThatExists_IsOk) {
  const Observations seen = filters_seen_with({{"NCCL_IB_HCA", "mlx5"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence, "mlx5 (environment) accepts 1 of 1 ports");
}

TEST(NcclFilters, OneOfTwoHcasIsMissing_IsAWarning) {
  const Observations seen = filters_seen_with({{"NCCL_IB_HCA", "mlx5_0,mlx5_7"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].evidence, "mlx5_0,mlx5_7 (environment): this machine has no mlx5_7");
}

TEST(NcclFilters, NothingSetOnAnotherMachine_IsUnknown) {
  EXPECT_EQ(verdict_of(nccl_filters(), MadeHost().host), Verdict::kUnknown);
}

TEST(NcclFilters, BlanksInTheHcas_AreAWarningWithoutThePlugin) {
  const Observations seen = filters_seen_with({{"NCCL_IB_HCA", "mlx5_0, mlx5_1"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].fix, "export NCCL_IB_HCA=mlx5_0,mlx5_1");
  EXPECT_EQ(filters_seen_with({{"NCCL_IB_HCA", " mlx5_0"}, {"NCCL_NET_PLUGIN", "gdr"}})[0].verdict,
            Verdict::kOk);
}

TEST(NcclFilters, NoHcaMatches_IsAFailure) {
  EXPECT_EQ(filters_seen_with({{"NCCL_IB_HCA", "ib0"}})[0].verdict, Verdict::kFailure);
  EXPECT_EQ(filters_seen_with({{"NCCL_IB_HCA", "^mlx5"}})[0].verdict, Verdict::kFailure);
}

TEST(NcclFilters, MachineWithoutHcas_IsOk) {
  MadeHost made;
  made.host.environment["NCCL_IB_HCA"] = "mlx5_0";
  EXPECT_EQ(verdict_of(nccl_filters(), made.host), Verdict::kOk);
}

TEST(NcclFilters, Interface_HasToExistAndBeUp) {
  EXPECT_EQ(filters_seen_with({{"NCCL_SOCKET_IFNAME", "eth"}})[0].verdict, Verdict::kOk);
  EXPECT_EQ(filters_seen_with({{"NCCL_SOCKET_IFNAME", "=eth1"}})[0].verdict, Verdict::kFailure);
  EXPECT_EQ(filters_seen_with({{"NCCL_SOCKET_IFNAME", "=eth1"}})[0].fix,
            "ip link set dev 'eth1' up, or name another interface");
  const Observations seen = filters_seen_with({{"NCCL_SOCKET_IFNAME", "bond0"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].evidence,
            "bond0 (environment) matches no interface of this machine (eth0, "
            "eth1)");
}

TEST(NcclFilters, InterfaceWithoutSysfs_IsUnknown) {
  MadeHost made;
  made.host.environment["NCCL_SOCKET_IFNAME"] = "eth0";
  EXPECT_EQ(verdict_of(nccl_filters(), made.host), Verdict::kUnknown);
}

TEST(NcclFilters, PkeyWithoutAnEntry_IsAFailure) {
  EXPECT_EQ(filters_seen_with({{"NCCL_IB_PKEY", "0"}})[0].verdict, Verdict::kOk);
  EXPECT_EQ(filters_seen_with({{"NCCL_IB_PKEY", "1"}})[0].verdict, Verdict::kFailure);
  EXPECT_EQ(filters_seen_with({{"NCCL_IB_PKEY", "0x7fff"}})[0].verdict, Verdict::kFailure);
}

TEST(NcclFilters, PkeyWithoutATable_IsUnknownAndAKeyAWarning) {
  MadeHost made;
  made.host.environment["NCCL_IB_PKEY"] = "1";
  EXPECT_EQ(verdict_of(nccl_filters(), made.host), Verdict::kUnknown);
  made.host.environment["NCCL_IB_PKEY"] = "0x7fff";
  EXPECT_EQ(verdict_of(nccl_filters(), made.host), Verdict::kWarning);
  made.write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
  made.write("/sys/class/infiniband/mlx5_0/ports/1/pkeys/0", "0xffff\n");
  EXPECT_EQ(verdict_of(nccl_filters(), made.host), Verdict::kWarning);
  made.host.environment["NCCL_IB_PKEY"] = "0";
  EXPECT_EQ(verdict_of(nccl_filters(), made.host), Verdict::kOk);
}

}  // namespace
}  // namespace gdr::tools::doctor
