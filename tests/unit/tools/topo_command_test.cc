// Sources, hosts and options.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Document = nlohmann::ordered_json;

TEST_F(TopoCommand, OneSource_PrintsTheMatrix) {
  const Printed result = run("--from " + known(kMachine));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nRails\n"));
}

TEST_F(TopoCommand, NcclVersion_IsTheReleaseOfThePrediction) {
  const Printed result = run("--json --nccl-version 2.28.9 --from " + known(kMachine));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Document::parse(result.out)["nccl"]["release"], "2.28.9");
}

TEST_F(TopoCommand, NeitherGpuNorHca_IsStatus3InEveryForm) {
  const std::string from =
      " --from " + write("cpu.xml", "<system version=\"1\"><cpu numaid=\"0\"/></system>");
  for (const char* form : {"", "--json", "--nccl-xml"}) {
    const Printed result = run(form + from);
    EXPECT_EQ(result.code, 3) << form;
    EXPECT_THAT(result.out, Not(IsEmpty())) << form;
  }
  EXPECT_THAT(run(from).out, HasSubstr("nccl-gdr with-softhca nccl-gdr topo"));
  setenv("NCCL_IB_HCA", "nope", 1);
  const Printed excluded = run("--from " + known("cases/nogpu.xml"));
  unsetenv("NCCL_IB_HCA");
  EXPECT_EQ(excluded.code, 0);
  EXPECT_THAT(excluded.out, Not(HasSubstr("neither a GPU nor an HCA")));
}

TEST_F(TopoCommand, FolderWithoutSys_IsAnErrorWithAdvice) {
  const Printed result = run("--from " + known(""));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("without sys/devices"));
  EXPECT_THAT(result.err, HasSubstr("hwloc-gather-topology"));
}

TEST_F(TopoCommand, TextOfNvidiaSmiThatShowsLess_SaysSoInEveryForm) {
  const std::string matrix =
      "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPXB\t0-7\tN/A\nNIC0\tPXB\t X \n";
  const std::string from = " --from " + write("smi.txt",
                                              "76 NICs found in the topology, only "
                                              "displaying 1 in the matrix.\n" +
                                                  matrix);
  for (const char* form : {"", "--json"}) {
    const Printed result = run(form + from);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("shows 1 of 76 NICs")) << form;
    EXPECT_THAT(result.err, HasSubstr("warning: nvidia-smi shows 1 of 76 NICs")) << form;
  }
  const Document json = Document::parse(run("--json" + from).out);
  EXPECT_TRUE(json["gpus"][0]["nvlinks"].is_null());
  EXPECT_TRUE(json["gpus"][0]["numa_node"].is_null());
  EXPECT_TRUE(json["numa_nodes"][0]["id"].is_null());
}

TEST_F(TopoCommand, TextOfNvidiaSmi_MakesNoTopologyFile) {
  const std::string text =
      "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPXB\t0-7\t0\nNIC0\tPXB\t X \n";
  const std::string from = " --from " + write("smi.txt", text);
  for (const char* options : {"--nccl-xml", "--nccl-xml --grouped"}) {
    const Printed result = run(options + from);
    EXPECT_EQ(result.code, 2) << options;
    EXPECT_THAT(result.out, IsEmpty()) << options;
    EXPECT_THAT(result.err, HasSubstr("--nccl-xml: the text of nvidia-smi has no PCI addresses"));
  }
}

TEST_F(TopoCommand, GatheredFolder_LeavesTheEnvironmentAsItIs) {
  fs::create_directories(folder_ / "sys" / "devices");
  unsetenv("HWLOC_FSROOT");
  (void)run("--from " + folder_.string());
  EXPECT_EQ(std::getenv("HWLOC_FSROOT"), nullptr);
  setenv("HWLOC_FSROOT", "/another", 1);
  (void)run("--from " + folder_.string());
  EXPECT_STREQ(std::getenv("HWLOC_FSROOT"), "/another");
  unsetenv("HWLOC_FSROOT");
}

TEST_F(TopoCommand, OptionsThatContradictEachOther_AreErrors) {
  const std::string one = " --from " + known(kMachine);
  const Printed result = run("--json --nccl-xml" + one);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("--"));
}

TEST_F(TopoCommand, HostsOfOneFile_AreChosenByNumberOrHash) {
  const std::string from = "--from " + known("cases/nvl72b.xml");
  auto host_of = [&](const std::string& arguments) {
    return Document::parse(run("--json " + from + arguments).out)["host"];
  };
  EXPECT_EQ(host_of(""), "0xabc0");
  EXPECT_EQ(host_of(" --host 1"), "0xabc1");
  EXPECT_EQ(host_of(" --host 0xabc1"), "0xabc1");
  EXPECT_THAT(run(from).err, HasSubstr("describes 2 hosts, and this is the first"));
  EXPECT_THAT(run(from + " --host 0").err, Not(HasSubstr("describes")));
}

TEST_F(TopoCommand, HostThatDoesNotExist_IsAnErrorThatListsTheHosts) {
  const std::string from = " --from " + known("cases/nvl72b.xml");
  for (const char* host : {"2", "node17", "0xabc2", "all"}) {
    const Printed result = run("--host " + std::string(host) + from);
    EXPECT_EQ(result.code, 2) << host;
    EXPECT_THAT(result.err, HasSubstr("--host: \"" + std::string(host) + "\" is not in "));
    EXPECT_THAT(result.err, HasSubstr("hosts: 0xabc0, 0xabc1; or a number from 0 to 1")) << host;
  }
  const Printed single = run("--host 1 --from " + known("hwloc-dgx-h100.xml"));
  EXPECT_EQ(single.code, 2);
  EXPECT_THAT(single.err, HasSubstr("Fix: leave it out: the file describes one host"));
  EXPECT_EQ(run("--host 0").code, 2);
}

TEST_F(TopoCommand, SeveralSources_AreAnError) {
  const std::string from = " --from " + known(kMachine);
  for (const std::string& arguments : {from + " live", from + from}) {
    const Printed result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.out, IsEmpty()) << arguments;
    EXPECT_THAT(result.err, HasSubstr("Fix: nccl-gdr topo --help")) << arguments;
  }
}

TEST_F(TopoCommand, RailMap_IsInTheTitleOfTheRails) {
  const std::string source = " --from " + known(kMachine);
  const auto by_environment = [&](const char* map) {
    setenv("GDR_NCCL_RAIL_MAP", map, 1);
    const Printed result = run(source);
    unsetenv("GDR_NCCL_RAIL_MAP");
    return result.out;
  };
  EXPECT_THAT(by_environment("GPU0=mlx5_3;GPU7=mlx5_0"),
              HasSubstr("\nRails, by GDR_NCCL_RAIL_MAP=GPU0=mlx5_3;GPU7=mlx5_0\n"));
  EXPECT_THAT(by_environment("GPU0=mlx5_99"), HasSubstr("\nRails\n"));  // it does not fit
}

}  // namespace
}  // namespace gdr::tools
