#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

Observations variables_seen_with(const config::Environment& environment, size_t gpus = 0) {
  MadeHost made;
  made.host.is_live = true;
  made.host.environment = environment;
  made.host.inspection.emplace();
  made.host.inspection->decision.machine.gpus.resize(gpus);
  return nccl_variables().run(made.host);
}

TEST(NcclVariables, NothingSet_IsOk) {
  const Observations seen = variables_seen_with({});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
}

TEST(NcclVariables, NothingSetOnAnotherMachine_IsUnknown) {
  const Observations seen = nccl_variables().run(MadeHost().host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kUnknown);
  EXPECT_EQ(seen[0].needs, "run it on the machine, in the job");
}

TEST(NcclVariables, RemovedFromNccl_AreWarningsWhateverTheValueAndThePlugin) {
  for (const char* value : {"0", "1", "-2", "PHB"}) {
    for (const char* name : {"NCCL_IB_GDR_LEVEL", "NCCL_IB_CUDA_SUPPORT"}) {
      EXPECT_EQ(variables_seen_with({{name, value}})[0].verdict, Verdict::kWarning)
          << name << value;
      const Observations seen = variables_seen_with({{name, value}, {"NCCL_NET_PLUGIN", "gdr"}});
      ASSERT_EQ(seen.size(), 1u) << name << value;
      EXPECT_EQ(seen[0].verdict, Verdict::kWarning) << name << value;
      EXPECT_TRUE(seen[0].fix.starts_with(std::string("unset ") + name)) << seen[0].fix;
    }
  }
}

TEST(NcclVariables, BlanksInTheHcas_AreLeftToTheCheckOfFilters) {
  EXPECT_EQ(variables_seen_with({{"NCCL_IB_HCA", "mlx5_0, mlx5_1"}})[0].verdict, Verdict::kOk);
}

TEST(NcclVariables, NameLikeNoOther_HasNoSuggestion) {
  EXPECT_EQ(variables_seen_with({{"NCCL_RNG", "1"}})[0].verdict, Verdict::kOk);
  EXPECT_EQ(variables_seen_with({{"GDR_NCCL_FOO", "1"}})[0].fix.find("nearest"), std::string::npos);
}

TEST(NcclVariables, CommonOnes_AreOk) {
  const Observations seen = variables_seen_with({{"NCCL_DEBUG", "INFO"},
                                                 {"NCCL_IB_TIMEOUT", "22"},
                                                 {"NCCL_NET_GDR_LEVEL", "PHB"},
                                                 {"NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                 {"NCCL_VERSION", "2.27.3"},
                                                 {"NCCL_TESTS_DEVICE", "0"}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence,
            "of the 6 variables that are set none is misspelt or has a value that cannot be used");
}

TEST(NcclVariables, LevelAsANumber_IsAWarningThatNamesIt) {
  const Observations seen = variables_seen_with({{"NCCL_NET_GDR_LEVEL", "3"}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].subject, "NCCL_NET_GDR_LEVEL");
  EXPECT_NE(seen[0].evidence.find("3 (environment): NCCL takes this number for PHB"),
            std::string::npos);
  EXPECT_EQ(seen[0].fix,
            "write the name, PHB if NCCL's reading is meant: export NCCL_NET_GDR_LEVEL=PHB");
}

TEST(NcclVariables, LevelOfAnotherTool_IsAWarning) {
  const Observations seen = variables_seen_with({{"NCCL_NET_GDR_LEVEL", "NODE"}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
}

TEST(NcclVariables, ValueOutOfRange_IsAWarning) {
  const Observations seen = variables_seen_with({{"NCCL_IB_RETRY_CNT", "13"}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].fix, "use 0 to 7");
}

TEST(NcclVariables, ValueThatNcclCannotUse_IsAWarning) {
  const std::pair<const char*, const char*> cases[] = {
      {"NCCL_P2P_LEVEL", "pix"},       {"NCCL_P2P_DISABLE", "no"},  {"NCCL_NVB_DISABLE", "no"},
      {"NCCL_NETDEVS_POLICY", "some"}, {"NCCL_NET_GDR_C2C", "on"},  {"NCCL_PXN_C2C", "on"},
      {"NCCL_NET_GDR_MLOPART", "on"},  {"NCCL_NET_GDR_READ", "yes"}};
  for (const auto& [name, value] : cases) {
    const Observations seen = variables_seen_with({{name, value}});
    ASSERT_EQ(seen.size(), 1u) << name;
    EXPECT_EQ(seen[0].verdict, Verdict::kWarning) << name;
    EXPECT_EQ(seen[0].subject, name);
    EXPECT_NE(seen[0].evidence.find("cannot be used"), std::string::npos) << seen[0].evidence;
  }
}

TEST(NcclVariables, MisspeltNames_AreWarningsWithTheName) {
  const Observations seen = variables_seen_with(
      {{"NCCL_IB_HCAS", "mlx5_0"}, {"NCCL_NET_PLUGINS", "gdr"}, {"NCCL_DEBG", "INFO"}});
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_NE(seen[0].fix.find("NCCL_IB_HCA"), std::string::npos);
  EXPECT_EQ(seen[1].fix, "check the spelling; the nearest name is NCCL_DEBUG");
  EXPECT_EQ(seen[2].fix, "check the spelling; the nearest name is NCCL_NET_PLUGIN");
}

TEST(NcclVariables, OfTheOwnTransportOnly_IsAWarningWithThePlugin) {
  EXPECT_EQ(variables_seen_with({{"NCCL_IB_OOO_RQ", "1"}})[0].verdict, Verdict::kOk);
  EXPECT_EQ(variables_seen_with({{"NCCL_IB_OOO_RQ", "1"}, {"NCCL_NET_PLUGIN", "gdr"}})[0].verdict,
            Verdict::kWarning);
}

TEST(NcclVariables, SetInAFile_NamesTheLine) {
  MadeHost made;
  made.host.environment["NCCL_NET_GDR_LEVEL"] = "5";
  made.host.conf_places["NCCL_NET_GDR_LEVEL"] = {"/etc/nccl.conf", 4};
  const Observations seen = nccl_variables().run(made.host);
  EXPECT_NE(seen[0].evidence.find("5 (/etc/nccl.conf:4)"), std::string::npos);
}

TEST(NcclVariables, MissingTopologyFile_IsAWarning) {
  const Observations seen = variables_seen_with({{"NCCL_TOPO_FILE", "/etc/topo.xml"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  MadeHost made;
  made.write("/etc/topo.xml", "<system/>");
  made.host.environment["NCCL_TOPO_FILE"] = "/etc/topo.xml";
  EXPECT_EQ(verdict_of(nccl_variables(), made.host), Verdict::kOk);
}

TEST(NcclVariables, Leftovers_AreWarningsWhereTheyCost) {
  EXPECT_EQ(variables_seen_with({{"NCCL_NET_GDR_READ", "0"}})[0].verdict, Verdict::kOk);
  EXPECT_EQ(variables_seen_with({{"NCCL_NET_GDR_READ", "0"}}, 1)[0].verdict, Verdict::kWarning);
  EXPECT_EQ(variables_seen_with({{"NCCL_P2P_DISABLE", "1"}}, 8)[0].verdict, Verdict::kOk);
  EXPECT_EQ(variables_seen_with({{"NCCL_SHM_DISABLE", "1"}}, 8)[0].verdict, Verdict::kWarning);
  MadeHost made;
  made.host.environment["NCCL_P2P_DISABLE"] = "1";
  made.host.inspection.emplace();
  made.host.inspection->decision.machine.gpus.resize(2);
  made.host.inspection->decision.machine.gpus[0].nvlinks.emplace_back();
  EXPECT_EQ(verdict_of(nccl_variables(), made.host), Verdict::kWarning);
}

}  // namespace
}  // namespace gdr::tools::doctor
