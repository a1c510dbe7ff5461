#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

using Environment = config::Environment;

constexpr char kTopologyFile[] = "<system version=\"1\"><cpu numaid=\"0\"/></system>";

// The variables of a job on this machine.
auto with(const Environment& environment, int gpus = 0) {
  return [=](MadeHost* made) {
    made->host.is_live = true;
    made->host.environment = environment;
    if (gpus > 0) made->add_gpus(gpus);
  };
}

// On a machine with a CPU of that vendor.
auto without_relaxed_ordering(const char* vendor) {
  return [=](MadeHost* made) {
    with({{"NCCL_IB_PCI_RELAXED_ORDERING", "0"}}, 1)(made);
    made->host.inspection->decision.machine.cpu.vendor = vendor;
  };
}

Observations variables_seen_with(const Environment& environment) {
  MadeHost made;
  with(environment)(&made);
  return seen_by("nccl-variables", made.host);
}

TEST(NcclVariables, EachCase_HasItsVerdict) {
  const Environment on_own_transport = {{"NCCL_IB_OOO_RQ", "1"}};
  const Environment on_plugin = {{"NCCL_IB_OOO_RQ", "1"}, {"NCCL_NET_PLUGIN", "gdr"}};
  const Environment topo_file = {{"NCCL_TOPO_FILE", "/etc/topo.xml"}};
  expect_worst<MadeHost>(
      "nccl-variables",
      {{"nothing set", with({}), Verdict::kOk},
       {"nothing set on another machine", [](MadeHost*) {}, Verdict::kUnknown, "", "",
        "run it on the machine, in the job"},
       {"blanks in the HCAs, which nccl-filters judges", with({{"NCCL_IB_HCA", "mlx5_0, mlx5_1"}}),
        Verdict::kOk},
       {"sign before each HCA", with({{"NCCL_IB_HCA", "=mlx5_0,=mlx5_1:1"}}), Verdict::kWarning, "",
        "", "export NCCL_IB_HCA==mlx5_0,mlx5_1:1"},
       {"another sign before an HCA", with({{"NCCL_IB_HCA", "mlx5_0,^mlx5_1"}}), Verdict::kWarning,
        "", "", "export NCCL_IB_HCA=mlx5_0"},
       {"port that is not a number", with({{"NCCL_IB_HCA", "mlx5_1:x"}}), Verdict::kWarning, "", "",
        "write each HCA of it as NAME or NAME:PORT"},
       {"name like no other", with({{"NCCL_RNG", "1"}}), Verdict::kOk},
       {"common ones",
        with({{"NCCL_DEBUG", "INFO"},
              {"NCCL_IB_TIMEOUT", "22"},
              {"NCCL_NET_GDR_LEVEL", "PHB"},
              {"NCCL_ASYNC_ERROR_HANDLING", "1"}}),
        Verdict::kOk, "", "variables with known names: 4"},
       {"unknown names",
        with({{"NCCL_NVLINK_ENABLE", "1"},
              {"NCCL_GDR_LEVEL", "5"},
              {"NCCL_NET_GDR_ENABLE", "1"},
              {"NCCL_P2P_ENABLE", "1"}}),
        Verdict::kOk, "NCCL_GDR_LEVEL, NCCL_NET_GDR_ENABLE, NCCL_NVLINK_ENABLE, NCCL_P2P_ENABLE",
        "NCCL 2.20 to 2.30 document no variable of this name"},
       {"level as a number", with({{"NCCL_NET_GDR_LEVEL", "3"}}), Verdict::kWarning,
        "NCCL_NET_GDR_LEVEL", "3 (environment): NCCL takes this number for PHB",
        "write the name, PHB if NCCL's reading is meant: export NCCL_NET_GDR_LEVEL=PHB"},
       {"level of another tool", with({{"NCCL_NET_GDR_LEVEL", "NODE"}}), Verdict::kWarning},
       {"level in a file",
        [](MadeHost* made) {
          made->host.environment["NCCL_NET_GDR_LEVEL"] = "5";
          made->host.conf_places["NCCL_NET_GDR_LEVEL"] = {"/etc/nccl.conf", 4};
        },
        Verdict::kWarning, "", "5 (/etc/nccl.conf:4)"},
       {"out of range", with({{"NCCL_IB_RETRY_CNT", "13"}}), Verdict::kWarning, "", "",
        "use 0 to 7"},
       {"own transport's", with(on_own_transport), Verdict::kOk},
       {"own transport's with the plugin", with(on_plugin), Verdict::kWarning},
       {"missing topology file", with(topo_file), Verdict::kWarning},
       {"no topology file", with({{"NCCL_TOPO_FILE", ""}}), Verdict::kOk},
       {"nothing as topology file", with({{"NCCL_TOPO_FILE", "/dev/null"}}), Verdict::kOk},
       {"folder as topology file", with({{"NCCL_TOPO_FILE", "/"}}), Verdict::kWarning, "",
        "it is not a file"},
       {"topology file",
        [&](MadeHost* made) {
          made->host.environment = topo_file;
          made->write("/etc/topo.xml", kTopologyFile);
        },
        Verdict::kOk},
       {"GDR_READ without a GPU", with({{"NCCL_NET_GDR_READ", "0"}}), Verdict::kOk},
       {"GDR_READ", with({{"NCCL_NET_GDR_READ", "0"}}, 1), Verdict::kWarning},
       {"P2P_DISABLE without NVLink", with({{"NCCL_P2P_DISABLE", "1"}}, 8), Verdict::kOk},
       {"P2P_DISABLE with NVLink",
        [](MadeHost* made) {
          with({{"NCCL_P2P_DISABLE", "1"}})(made);
          made->host.inspection.emplace();
          made->host.inspection->decision = topology::scene_of(topology::with_nvlink());
        },
        Verdict::kWarning},
       {"SHM_DISABLE", with({{"NCCL_SHM_DISABLE", "1"}}, 8), Verdict::kWarning},
       {"relaxed ordering off", without_relaxed_ordering("GenuineIntel"), Verdict::kOk},
       {"relaxed ordering off on AMD", without_relaxed_ordering("AuthenticAMD"), Verdict::kWarning,
        "", "strictly ordered writes", "unset NCCL_IB_PCI_RELAXED_ORDERING"}});
}

TEST(NcclVariables, RemovedFromNccl_AreWarningsWhateverTheValueAndThePlugin) {
  for (const char* value : {"0", "1", "-2", "PHB"}) {
    for (const char* name : {"NCCL_IB_GDR_LEVEL", "NCCL_IB_CUDA_SUPPORT"}) {
      for (const Environment& plugin : {Environment{}, Environment{{"NCCL_NET_PLUGIN", "gdr"}}}) {
        Environment environment = plugin;
        environment[name] = value;
        const Observations seen = variables_seen_with(environment);
        ASSERT_EQ(seen.size(), 1u) << name << value;
        EXPECT_EQ(seen[0].verdict, Verdict::kWarning) << name << value;
        EXPECT_TRUE(seen[0].fix.starts_with(std::string("unset ") + name)) << seen[0].fix;
      }
    }
  }
}

TEST(NcclVariables, FilesOfNccl_AreReadAsNcclReadsThem) {
  const std::string topology = kTopologyFile;
  const std::string graph =
      "<graphs version=\"1\"><graph id=\"0\"><channel><gpu dev=\"0\"/><gpu dev=\"0x3\"/></channel>"
      "</graph></graphs>";
  const struct {
    const char* name;
    std::string text;  // "": no file
    Verdict verdict;
    const char* evidence;
  } cases[] = {
      {"NCCL_TOPO_FILE", "\t" + topology, Verdict::kFailure, "/etc/file.xml:1: NCCL refuses"},
      {"NCCL_TOPO_FILE", "<?xml?>" + topology, Verdict::kFailure,
       "<?xml?>, an element to NCCL, does not end"},
      {"NCCL_TOPO_FILE", topology.substr(0, 30), Verdict::kFailure, "the file ends within"},
      {"NCCL_TOPO_FILE", "<system version=\"1\"/>", Verdict::kWarning, "has no <cpu>"},
      {"NCCL_TOPO_FILE", graph, Verdict::kWarning, "has no <system>"},
      {"NCCL_TOPO_FILE", topology, Verdict::kOk, ""},
      {"NCCL_GRAPH_FILE", graph, Verdict::kFailure, "use GPU3, and this machine has 2 GPUs"},
      {"NCCL_GRAPH_FILE", "<graphs version=\"1\"/>", Verdict::kWarning, "has no channels"},
      {"NCCL_GRAPH_FILE", "<!-- none -->\n<!----> ", Verdict::kWarning, "has no channels"},
      {"NCCL_GRAPH_FILE", "<!-- none --", Verdict::kFailure, "NCCL fails"},
      {"NCCL_GRAPH_FILE",
       "<graphs version=\"1\"><graph><channel><gpu rank=\"9\"/></channel></graph></graphs>",
       Verdict::kWarning, "instead of those"},
      {"NCCL_GRAPH_FILE", "<graphs/>", Verdict::kFailure, "<graphs> is not of version 1"},
      {"NCCL_GRAPH_FILE", "\t" + graph, Verdict::kFailure, "/etc/file.xml:1: a tab"},
      {"NCCL_GRAPH_FILE", "<graphs", Verdict::kFailure, "not XML"},
      {"NCCL_GRAPH_FILE", "<?xml?>" + graph, Verdict::kFailure, "to NCCL, does not end"},
      {"NCCL_GRAPH_FILE", "\n\t" + graph, Verdict::kFailure, "file.xml:2: a tab, where NCCL"},
      {"NCCL_GRAPH_FILE", "<graphs version=\"2\"/>", Verdict::kFailure, "not of version 1"},
      {"NCCL_GRAPH_FILE", "<graph/>", Verdict::kWarning, "has no channels"},
      {"NCCL_GRAPH_FILE", "\n", Verdict::kWarning, "has no channels"},
      {"NCCL_GRAPH_FILE", "", Verdict::kFailure, "No such file"}};
  for (const auto& one : cases) {
    for (const bool is_live : {true, false}) {
      MadeHost made;
      with({{one.name, "/etc/file.xml"}}, 2)(&made);
      made.host.is_live = is_live;
      if (!one.text.empty()) made.write("/etc/file.xml", one.text);
      const Observation seen = worst_of("nccl-variables", made.host);
      EXPECT_EQ(seen.verdict, one.verdict) << one.name << one.text;
      EXPECT_THAT(seen.evidence, ::testing::HasSubstr(one.evidence));
    }
  }
  EXPECT_EQ(variables_seen_with({{"NCCL_GRAPH_FILE", ""}}).at(0).verdict, Verdict::kFailure);
  MadeHost copy;  // of another machine's /proc, /sys, /dev and /etc
  std::filesystem::create_directories(copy.host.path("/etc"));
  std::filesystem::create_symlink("/none.xml", copy.host.path("/etc/link.xml"));
  for (const char* name : {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"}) {
    for (const char* file : {"/vendor/ndv5.xml", "of-job.xml", "/etc/link.xml"}) {
      with({{name, file}}, 2)(&copy);
      copy.host.is_live = false;
      const Observation seen = worst_of("nccl-variables", copy.host);
      EXPECT_EQ(seen.verdict, Verdict::kUnknown) << name << file;
      EXPECT_THAT(seen.evidence, ::testing::HasSubstr("which the copy does not have"));
      const Verdict of_rails = worst_of("gpu-rail-path", copy.host).verdict;
      EXPECT_EQ(of_rails == Verdict::kUnknown, name == std::string("NCCL_TOPO_FILE")) << file;
    }
  }
  MadeHost made;  // the default of nvidia-topologyd
  made.write("/var/run/nvidia-topologyd/virtualTopology.xml", "\t" + topology);
  EXPECT_EQ(worst_of("nccl-variables", made.host).verdict, Verdict::kFailure);
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
    EXPECT_THAT(seen[0].evidence, ::testing::HasSubstr("cannot be used"));
  }
}

TEST(NcclVariables, MisspeltNames_AreWarningsWithTheName) {
  const Observations seen = variables_seen_with({{"NCCL_IB_HCAS", "mlx5_0"},
                                                 {"NCCL_NET_PLUGINS", "gdr"},
                                                 {"NCCL_DEBG", "INFO"},
                                                 {"GDR_NCCL_FOO", "1"}});
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_THAT(seen[0].fix, ::testing::Not(::testing::HasSubstr("nearest")));
  EXPECT_THAT(seen[1].fix, ::testing::HasSubstr("NCCL_IB_HCA"));
  EXPECT_EQ(seen[2].fix, "check the spelling; the nearest name is NCCL_DEBUG");
  EXPECT_EQ(seen[3].fix, "check the spelling; the nearest name is NCCL_NET_PLUGIN");
}

}  // namespace
}  // namespace gdr::tools::doctor
