// `doctor --from FILE`, which judges a file with a topology.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

class DoctorFrom : public TopoCommand {
 protected:
  static Printed judge(const std::string& arguments) { return run(arguments, add_doctor_command); }

  static Json report_on(const std::string& file) {
    return Json::parse(judge("--json --from " + file).out);
  }
};

// The kinds of what is wrong: "rail-share gdr-reach".
std::string kinds_in(const Json& report) {
  std::set<std::string> kinds;
  for (const Json& check : report["checks"]) {
    for (const Json& one : check["observations"]) {
      if (one["kind"].is_string()) kinds.insert(one["kind"].get<std::string>());
    }
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : " ") + kind;
  return text;
}

TEST_F(DoctorFrom, KnownMachines_HaveTheseFindings) {
  const std::pair<const char*, const char*> machines[] = {
      {kMachine, ""},
      {"nccl-dgx-a100.xml", ""},
      {"nccl-amd-8gpu.xml", ""},
      {"nccl-gb200-tray.xml", ""},
      {"hwloc-dual-port-cards.xml", ""},
      {"cases/gb10b.xml", ""},
      {"nccl-cross-wired.xml", "gdr-reach rail-share"},
      {"cases/nogpu.xml", "no-gpu"},
      {"hwloc-two-socket-plain.xml", "gdr-reach"},
      {"hwloc-flat-vm.xml", "gdr-reach"}};
  for (const auto& [file, kinds] : machines) EXPECT_EQ(kinds_in(report_on(known(file))), kinds);
}

TEST_F(DoctorFrom, GoodMachine_ExitsWith0AndNamesWhatAFileDoesNotShow) {
  const Printed result = judge("--from " + known(kMachine));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              HasSubstr("nccl-hgx-4nic.xml: of 40 checks, none failed, 0 with warnings"));
  EXPECT_THAT(result.out, HasSubstr("run it on the machine"));
}

TEST_F(DoctorFrom, ChangedMachine_HasTheFindingWithItsSubject) {
  const Json report = report_on(copy("node7.xml", kMachine, kLinks, kFewerLinks));
  EXPECT_EQ(kinds_in(report), "nvlink");
  for (const Json& check : report["checks"]) {
    if (check["name"] != "nvlink") continue;
    EXPECT_EQ(check["verdict"], "warning");
    EXPECT_EQ(check["observations"][0]["subject"], "GPU0 (0000:12:00.0)");
  }
}

TEST_F(DoctorFrom, MachineWithoutAnHca_ExitsWith1) {
  const std::string file = write(
      "gpu.xml",
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">"
      "<pci busid=\"0000:1a:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
      "link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/></pci></cpu></system>");
  const Printed result = judge("--check rdma-devices --from " + file);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("the machine shows no HCA"));
}

TEST_F(DoctorFrom, SettingThatLeavesGpusWorseOff_IsNamedWithItsValue) {
  setenv("NCCL_IB_HCA", "mlx5_0,mlx5_1", 1);
  const Printed result = judge("--check rails --from " + known(kMachine));
  unsetenv("NCCL_IB_HCA");
  EXPECT_THAT(result.out, HasSubstr("NCCL_IB_HCA=mlx5_0,mlx5_1 leaves out mlx5_2:1, mlx5_3:1"));
}

TEST_F(DoctorFrom, LevelThatKeepsGpusFromGpuDirect_IsAFailureThatNamesWhereItIsSet) {
  const std::string arguments = "--json --check gpu-rail-path --from " + known(kMachine);
  setenv("NCCL_NET_GDR_LEVEL", "LOC", 1);
  const Printed by_variable = judge(arguments);
  unsetenv("NCCL_NET_GDR_LEVEL");
  EXPECT_EQ(by_variable.code, 1);
  EXPECT_THAT(by_variable.out, HasSubstr("\"fix\": \"unset NCCL_NET_GDR_LEVEL\""));
  const std::string file = write("nccl.conf", "NCCL_NET_GDR_LEVEL=LOC\n");
  setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const Printed by_file = judge(arguments);
  unsetenv("NCCL_CONF_FILE");
  EXPECT_THAT(by_file.out, HasSubstr("remove NCCL_NET_GDR_LEVEL from line 1 of " + file));
}

TEST_F(DoctorFrom, WhatCannotBeJudged_ExitsWith2AndSaysWhy) {
  const std::string matrix = write("topo.txt",
                                   "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\n"
                                   "GPU0\t X \tPIX\t0-31\t0\nNIC0\tPIX\t X \n");
  const std::string json = write("topo.json", "{}");
  const std::string good = "--from " + known(kMachine);
  const std::pair<std::string, const char*> cases[] = {
      {"--from " + matrix, "is the text of nvidia-smi topo -m, which states too little"},
      {"--from " + json, "this is JSON"},
      {"--from absent.xml", "absent.xml cannot be read"},
      {good + " --host 7", "--host"},
      {good + " --nccl-version x", "--nccl-version"},
      {good + " --root /tmp", "--from judges a file alone"},
      {good + " --fingerprint", "--from judges a file alone"},
      {"--host 0", "belong to --from"},
      {"--nccl-version 2.28.3", "belong to --from"}};
  for (const auto& [arguments, text] : cases) {
    const Printed result = judge(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(text)) << arguments;
  }
}

}  // namespace
}  // namespace gdr::tools
