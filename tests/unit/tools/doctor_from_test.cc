// `doctor --from FILE`, which judges a file with a topology.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

class DoctorFrom : public TopoCommand {
 protected:
  static Printed judge(const std::string& arguments) { return run_command("doctor " + arguments); }

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
      {"nccl-amd-4gpu.xml", ""},
      {"nccl-cloud-4nic.xml", "hca-unsupported"},
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
              HasSubstr("nccl-hgx-4nic.xml: of 29 checks, none failed, 0 with warnings"));
  EXPECT_THAT(result.out, HasSubstr("--root)")) << "where to look instead";
}

// NCCL takes a class that the file lacks from /sys, so that the file does not show the devices.
TEST_F(DoctorFrom, FunctionsThatNcclLooksUpInSys_LeaveDevicesUnknown) {
  const std::string gpu = " class=\"0x030200\"", nic = " class=\"0x020700\"";
  auto file_with = [&](const std::string& of_gpu, const std::string& of_nic) {
    return write("flat" + std::to_string(of_gpu.size()) + ".xml",
                 "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:1a:00.0\"" + of_gpu +
                     "/><pci busid=\"0000:1b:00.0\"" + of_gpu + "/><pci busid=\"0000:1c:00.0\"" +
                     nic + "/><pci busid=\"0000:1d:00.0\"" + of_nic + "/></cpu></system>");
  };
  const std::pair<std::string, const char*> files[] = {
      {file_with("", ""), "3 <pci> have no class"},
      {file_with(gpu, ""), "1 <pci> have no class"},
      {copy("capitals.xml", kMachine, "0000:12:00.0", "0000:1A:00.0"),
       "1 <pci> have no class, or"}};
  for (const auto& [file, text] : files) {
    const Printed result = judge("--check rdma-devices,rails,gpu-rail-path --from " + file);
    EXPECT_EQ(result.code, 3) << text;
    EXPECT_THAT(result.out, HasSubstr(text));
    EXPECT_THAT(result.out, Not(HasSubstr("failure")));
  }
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
  EXPECT_THAT(by_file.out, HasSubstr("remove line 1 of " + file));
}

// The verdict and the first text of a check.
std::string seen_by(const Json& report, const std::string& name) {
  for (const Json& check : report["checks"]) {
    if (check["name"] != name) continue;
    return check["verdict"].get<std::string>() + ": " +
           check["observations"][0]["evidence"].get<std::string>();
  }
  return "";
}

constexpr char kBareMachine[] =
    "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">"
    "<pci busid=\"0000:1a:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\"/></pci>"
    "<pci busid=\"0000:1b:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_0\" dev=\"0\" "
    "port=\"1\"/></nic></pci></cpu></system>";

TEST_F(DoctorFrom, WhatAFileIsSilentOf_IsNotOk) {
  const Json bare = report_on(write("bare.xml", kBareMachine));
  const Json without_gpu = report_on(known("cases/nogpu.xml"));
  const Json good = report_on(known(kMachine));
  const std::tuple<const Json&, const char*, const char*> cases[] = {
      {bare, "pcie-link", "unknown: the file does not show the width of any PCIe link"},
      {bare, "port-rate", "unknown: the file does not show the rate of any port"},
      {bare, "port-state", "unknown: the file does not show the state of any port"},
      {bare, "link-layer", "unknown: the file does not show the link layer of any port"},
      {bare, "memory-registration", "unknown: the file does not show whether HCAs can"},
      {bare, "nccl-filters", "unknown: the file does not show network interfaces"},
      {without_gpu, "rails", "nothing: the file shows no GPU"},
      {without_gpu, "gpu-rail-path", "nothing: the file shows no GPU"},
      {without_gpu, "nvlink", "nothing: the file shows no GPU"},
      {without_gpu, "memory-registration", "nothing: the file shows no GPU"},
      {without_gpu, "port-state", "nothing: the file shows no GPU"},
      {good, "pcie-link", "ok: nothing is wrong"},
      {good, "port-rate", "ok: nothing is wrong"},
      {good, "nvlink", "ok: nothing is wrong"},
      {good, "rails", "ok: nothing is wrong"},
      {good, "memory-registration", "ok: nothing is wrong"}};
  for (const auto& [report, check, text] : cases) {
    EXPECT_THAT(seen_by(report, check), StartsWith(text)) << check;
  }
  EXPECT_THAT(seen_by(report_on(known("hwloc-two-socket-plain.xml")), "nvlink"),
              StartsWith("unknown: the file does not show the NVLinks of GPUs"));
}

// Without its HCA, GPU0 gets those of all others, which NCCL_NETDEVS_POLICY=MAX:1 would change.
TEST_F(DoctorFrom, MachineThatLacksAnHca_GetsNoPolicyAsAFix) {
  std::string machine = read_whole(known("nccl-amd-4gpu.xml"));
  const size_t hca = machine.find("<pci busid=\"0000:12:00.0\"");
  machine.erase(hca, machine.find("</pci>", hca) + 6 - hca);
  const std::string text = report_on(write("lost.xml", machine)).dump();
  EXPECT_THAT(text, HasSubstr("GPU0: NCCL uses mlx5_"));
  EXPECT_THAT(text, Not(HasSubstr("NCCL_NETDEVS_POLICY=")));
}

// A setting for the machine as it is would stay when it is repaired.
TEST_F(DoctorFrom, LinkThatIsSlowOrShort_GetsNoSettingAsAFix) {
  const std::string a_switch =
      "03:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\" "
      "subsystem_vendor=\"0x1000\" "
      "subsystem_device=\"0x1003\" link_speed=\"16.0 GT/s PCIe\" ";
  const std::tuple<const char*, std::string, std::string, const char*> faults[] = {
      {"nccl-gb200-tray.xml", "dev=\"1\" speed=\"400", "dev=\"1\" speed=\"200", "slow-link"},
      {"nccl-gb200-tray.xml", "<c2c bw=\"44712\" count=\"5\"/>", "", "c2c"},
      {"nccl-dgx-a100.xml", a_switch + "link_width=\"16", a_switch + "link_width=\"8",
       "pcie-width"}};
  for (const auto& [file, from, to, kind] : faults) {
    const Json report = report_on(copy("fault.xml", file, from, to));
    EXPECT_THAT(kinds_in(report), HasSubstr(kind));
    EXPECT_THAT(report.dump(), Not(AnyOf(HasSubstr("NCCL_NET_GDR_LEVEL="), HasSubstr("--grouped"),
                                         HasSubstr("NCCL_NETDEVS_POLICY="))));
  }
}

TEST_F(DoctorFrom, ListThatLeavesFarRails_IsWhatToCorrectAndNoLevelIs) {
  setenv("NCCL_IB_HCA", "mlx5_0,mlx5_1,mlx5_2", 1);
  const Printed result = judge("--check gpu-rail-path --from " + known("nccl-dgx-a100.xml"));
  unsetenv("NCCL_IB_HCA");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("Fix: unset or correct NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2"));
  EXPECT_THAT(result.out, Not(HasSubstr("NCCL_NET_GDR_LEVEL=")));
}

// What is wrong with the file is of one check and cost, and no card is blamed for what follows.
TEST_F(DoctorFrom, SpellingOfALinkSpeed_IsOfTheVariablesAndBlamesNoCard) {
  const std::string of_hca = "subsystem_device=\"0x0041\" link_speed=\"32.0 GT/s";
  const Json report = report_on(copy("odd.xml", kMachine, of_hca + " PCIe", of_hca));
  EXPECT_THAT(seen_by(report, "nccl-variables"), HasSubstr("does not know link_speed"));
  for (const Json& check : report["checks"]) {
    EXPECT_THAT(check.dump(), Not(AnyOf(HasSubstr("reseat"), HasSubstr("look at the slot"))));
    if (check["name"] == "nccl-variables") EXPECT_EQ(check["cost"], "risk");
  }
}

TEST_F(DoctorFrom, FileOfSeveralHosts_IsAWarningUntilOneIsChosen) {
  const std::string arguments = "--json --check rails --from " + known("cases/nvl72b.xml");
  EXPECT_THAT(judge(arguments).out, HasSubstr("describes 2 hosts, and this is the first"));
  EXPECT_THAT(judge(arguments).out, HasSubstr("\"fix\": \"judge each host by itself: --host 0"));
  EXPECT_THAT(judge(arguments + " --host 1").out, Not(HasSubstr("describes 2 hosts")));
}

TEST_F(DoctorFrom, ListThatMatchesNothing_IsAFailureOfTheRails) {
  setenv("NCCL_IB_HCA", "nope", 1);
  const Printed result = judge("--check rails --from " + known(kMachine));
  unsetenv("NCCL_IB_HCA");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("NCCL_IB_HCA=nope leaves no rail at all"));
  const std::string erdma = write("erdma.xml", R"(<system version="1"><cpu numaid="0">
      <pci busid="0000:1a:00.0" class="0x030200"><gpu dev="0"/></pci>
      <pci busid="0000:1b:00.0" class="0x020000" vendor="0x1ded" device="0x107f">
      <nic><net name="erdma_0" dev="0" speed="100000" port="0"/></nic></pci></cpu></system>)");
  setenv("NCCL_IB_HCA", "mlx5_0", 1);
  const std::string text = report_on(erdma).dump();
  unsetenv("NCCL_IB_HCA");
  EXPECT_THAT(text, HasSubstr("NCCL_IB_HCA=mlx5_0 excludes every HCA of the machine"));
  EXPECT_THAT(text, Not(HasSubstr("the machine shows no HCA")));
}

TEST_F(DoctorFrom, BadOrDoubtfulValueOfAVariable_IsReportedOnce) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"NCCL_NET_GDR_READ", "yes", "failure"},
      {"NCCL_P2P_LEVEL", "pix", "failure"},
      {"NCCL_NET_GDR_LEVEL", "3", "ok"}};
  for (const auto& [name, value, verdict] : cases) {
    setenv(name, value, 1);
    const Json report =
        Json::parse(judge("--json --check nccl-variables --from " + known(kMachine)).out);
    unsetenv(name);
    const Json& check = report["checks"][0];
    EXPECT_EQ(check["verdict"], verdict) << name;
    ASSERT_EQ(check["observations"].size(), 1u) << name;
    EXPECT_EQ(seen_by(report, "nccl-variables").find("nothing is wrong"), std::string::npos);
  }
  const Json of_release = Json::parse(
      judge("--json --check nccl-variables --nccl-version 2.99.1 --from " + known(kMachine)).out);
  EXPECT_EQ(of_release["checks"][0]["observations"][0]["subject"], "--nccl-version");
}

TEST_F(DoctorFrom, WhatCannotBeJudged_ExitsWith2AndSaysWhy) {
  const std::string matrix = write("topo.txt",
                                   "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\n"
                                   "GPU0\t X \tPIX\t0-31\t0\nNIC0\tPIX\t X \n");
  const std::string json = write("topo.json", "{}");
  const std::string text = write("notes.txt", "notes");
  const std::string good = "--from " + known(kMachine);
  const std::pair<std::string, const char*> cases[] = {
      {"--from " + matrix, "is the text of nvidia-smi topo -m, which states too little"},
      {"--from " + json, "this is JSON"},
      {"--from absent.xml", "\"absent.xml\" cannot be read"},
      {"--from " + text, "NCCL_TOPO_DUMP_FILE=file.xml)\n"},
      {good + " --host 7", "--host"},
      {good + " --nccl-version x", "--nccl-version"}};
  for (const auto& [arguments, error] : cases) {
    const Printed result = judge(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(error)) << arguments;
  }
}

}  // namespace
}  // namespace gdr::tools
