#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

Observations transport_seen_with(const config::Environment& environment) {
  MadeHost made;
  made.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  made.host.is_live = true;
  made.host.libraries.is_known = true;
  made.host.environment = environment;
  return nccl_transport().run(made.host);
}

Verdict verdict_with(const config::Environment& environment) {
  return transport_seen_with(environment)[0].verdict;
}

TEST(NcclTransport, NothingSet_IsOk) { EXPECT_EQ(verdict_with({}), Verdict::kOk); }

TEST(NcclTransport, ThisPlugin_IsOk) {
  EXPECT_EQ(verdict_with({{"NCCL_NET_PLUGIN", "gdr"}}), Verdict::kOk);
  EXPECT_EQ(verdict_with({{"NCCL_NET_PLUGIN", "gdr"}, {"NCCL_NET", "gdr"}}), Verdict::kOk);
  EXPECT_EQ(verdict_with({{"NCCL_NET_PLUGIN", "none"}, {"NCCL_NET", "IB"}}), Verdict::kOk);
}

TEST(NcclTransport, DisabledIb_IsAFailure) {
  const Observations seen = transport_seen_with({{"NCCL_IB_DISABLE", "1"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].fix, "unset NCCL_IB_DISABLE");
  EXPECT_EQ(verdict_with({{"NCCL_IB_DISABLE", "0"}}), Verdict::kOk);
}

TEST(NcclTransport, Socket_IsAFailure) {
  EXPECT_EQ(verdict_with({{"NCCL_NET", "socket"}}), Verdict::kFailure);
}

TEST(NcclTransport, SocketWithoutAnHca_IsOk) {
  MadeHost made;
  made.host.environment = {{"NCCL_NET", "Socket"}, {"NCCL_IB_DISABLE", "1"}};
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kOk);
}

TEST(NcclTransport, OwnTransportBesideThePlugin_IsAWarning) {
  EXPECT_EQ(verdict_with({{"NCCL_NET", "IB"}, {"NCCL_NET_PLUGIN", "gdr"}}), Verdict::kWarning);
  EXPECT_EQ(verdict_with({{"NCCL_NET", "OFI"}, {"NCCL_NET_PLUGIN", "gdr"}}), Verdict::kWarning);
}

TEST(NcclTransport, NetGdrWithoutThePlugin_IsAFailure) {
  const Observations seen = transport_seen_with({{"NCCL_NET", "GDR"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].fix, "export NCCL_NET_PLUGIN=gdr");
}

TEST(NcclTransport, NothingSetOnAnotherMachine_IsUnknown) {
  EXPECT_EQ(verdict_of(nccl_transport(), MadeHost().host), Verdict::kUnknown);
}

TEST(NcclTransport, NetGdrWithADefaultPlugin_DependsOnWhichItIs) {
  MadeHost made;
  made.host.is_live = made.host.libraries.is_known = true;
  made.host.environment = {{"NCCL_NET", "GDR"}};
  made.host.libraries.default_plugin = {{"/usr/lib/libnccl-net.so", "/etc/ld.so.cache", "", {11}}};
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kWarning);
  made.host.libraries.default_plugin[0].is_this_plugin = true;
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kOk);
  made.host.environment["NCCL_NET_PLUGIN"] = "none";
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kFailure);
}

TEST(NcclTransport, NetOfNoTransport_IsAFailureWhereNoPluginIsLoaded) {
  const Observations seen = transport_seen_with({{"NCCL_NET", "XYZ"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].fix, "unset NCCL_NET");
  EXPECT_EQ(verdict_with({{"NCCL_NET", "XYZ"}, {"NCCL_NET_PLUGIN", "ofi"}}), Verdict::kUnknown);
  MadeHost made;
  made.host.environment = {{"NCCL_NET", "AWS Libfabric"}};
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kUnknown);
  made.host.libraries.is_known = true;
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kFailure);
  made.host.libraries.default_plugin.emplace_back();
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kUnknown);
}

TEST(NcclTransport, PluginInCapitals_IsAFailure) {
  const Observations seen = transport_seen_with({{"NCCL_NET_PLUGIN", "GDR"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].fix, "export NCCL_NET_PLUGIN=gdr");
}

TEST(NcclTransport, PathOfThePlugin_HasToExist) {
  MadeHost made;
  made.host.environment["NCCL_NET_PLUGIN"] = "/lib64/libnccl-net-gdr.so";
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kFailure);
  made.write("/lib64/libnccl-net-gdr.so", "");
  EXPECT_EQ(verdict_of(nccl_transport(), made.host), Verdict::kOk);
}

}  // namespace
}  // namespace gdr::tools::doctor
