#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

Observations seen_with(const config::Environment& environment) {
  MadeHost made;
  made.host.environment = environment;
  return nccl_transport().run(made.host);
}

Verdict verdict_with(const config::Environment& environment) {
  return seen_with(environment)[0].verdict;
}

TEST(NcclTransport, NothingSet_IsOk) { EXPECT_EQ(verdict_with({}), Verdict::kOk); }

TEST(NcclTransport, ThisPlugin_IsOk) {
  EXPECT_EQ(verdict_with({{"NCCL_NET_PLUGIN", "gdr"}}), Verdict::kOk);
  EXPECT_EQ(verdict_with({{"NCCL_NET_PLUGIN", "gdr"}, {"NCCL_NET", "gdr"}}), Verdict::kOk);
  EXPECT_EQ(verdict_with({{"NCCL_NET_PLUGIN", "none"}, {"NCCL_NET", "IB"}}), Verdict::kOk);
}

TEST(NcclTransport, DisabledIb_IsAFailure) {
  const Observations seen = seen_with({{"NCCL_IB_DISABLE", "1"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].fix, "unset NCCL_IB_DISABLE");
  EXPECT_EQ(verdict_with({{"NCCL_IB_DISABLE", "0"}}), Verdict::kOk);
}

TEST(NcclTransport, Socket_IsAFailure) {
  EXPECT_EQ(verdict_with({{"NCCL_NET", "socket"}}), Verdict::kFailure);
}

TEST(NcclTransport, OwnTransportBesideThePlugin_IsAWarning) {
  EXPECT_EQ(verdict_with({{"NCCL_NET", "IB"}, {"NCCL_NET_PLUGIN", "gdr"}}), Verdict::kWarning);
  EXPECT_EQ(verdict_with({{"NCCL_NET", "OFI"}, {"NCCL_NET_PLUGIN", "gdr"}}), Verdict::kWarning);
}

TEST(NcclTransport, NetGdrWithoutThePlugin_IsAFailure) {
  const Observations seen = seen_with({{"NCCL_NET", "GDR"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].fix, "export NCCL_NET_PLUGIN=gdr");
}

TEST(NcclTransport, PluginInCapitals_IsAFailure) {
  const Observations seen = seen_with({{"NCCL_NET_PLUGIN", "GDR"}});
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
