// The subcommand topo from the command line to its output and exit code.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/commands.h"
#include "tools/topo/render.h"

namespace gdr::tools {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Document = nlohmann::ordered_json;

struct Printed {
  int code = 0;
  std::string out;
  std::string err;
};

class TopoCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gdr-topo-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Printed run(const std::string& arguments) {
    CLI::App app;
    add_topo_command(app);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Printed result;
    try {
      app.parse("topo " + arguments);
    } catch (const CLI::ParseError& error) {
      result.code = error.get_exit_code();
      result.err = error.what();
    }
    std::fflush(stdout);
    std::fflush(stderr);
    result.out = testing::internal::GetCapturedStdout();
    result.err += testing::internal::GetCapturedStderr();
    return result;
  }

  // Runs with a pipe on standard input that has this text.
  static Printed run_with_input(const std::string& text, const std::string& arguments) {
    int ends[2];
    if (pipe(ends) != 0) return {};
    const int before = dup(STDIN_FILENO);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    std::thread writer([&] {
      EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
      close(ends[1]);
    });
    Printed result = run(arguments);
    writer.join();
    dup2(before, STDIN_FILENO);
    close(before);
    return result;
  }

  static std::string known(const std::string& file) {
    return (fs::path(GDR_TOPOLOGIES) / file).string();
  }

  // Writes a file of the tests and returns its name.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  // Copies a known machine, with the first `from` replaced.
  std::string copy(const std::string& name, const std::string& file, const std::string& from = "",
                   const std::string& to = "") const {
    std::ifstream stream(known(file));
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (!from.empty() && at != std::string::npos) text.replace(at, from.size(), to);
    return write(name, text);
  }

  // Writes the output of --json for a known machine.
  std::string golden(const std::string& file) const {
    return write("golden.json", run("--json --from " + known(file)).out);
  }

  fs::path folder_;
};

constexpr char kMachine[] = "nccl-hgx-4nic.xml";
constexpr char kLinks[] = "count=\"5\"";  // NVLinks of GPU0 to one of four switches
constexpr char kFewerLinks[] = "count=\"4\"";

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

TEST_F(TopoCommand, BadNcclVersion_NamesTheOptionAndAnExample) {
  for (const char* bad : {"x", "3.1", "2", "2.28.9.1", "-1"}) {
    const Printed result = run("--from " + known(kMachine) + " --nccl-version=" + bad);
    EXPECT_EQ(result.code, 2) << bad;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr("--nccl-version: \"" + std::string(bad) + "\""));
    EXPECT_THAT(result.err, HasSubstr("2.28.9"));
  }
}

TEST_F(TopoCommand, UnknownNewerRelease_IsNoted) {
  EXPECT_THAT(
      run("--nccl-version 2.99 --from " + known(kMachine)).err,
      HasSubstr(
          "the rules of NCCL 2.99 are not known; what it will do is predicted by those of 2.30.7"));
  EXPECT_THAT(run("--nccl-version 2.30 --from " + known(kMachine)).err,
              Not(HasSubstr("not known")));
}

TEST_F(TopoCommand, NcclVersionAsOfATagOrAPackage_IsAccepted) {
  const std::string from = " --from " + known(kMachine);
  EXPECT_THAT(run("--nccl-version v2.28.9" + from).out, HasSubstr("NCCL 2.28.9"));
  EXPECT_THAT(run("--nccl-version 2.28.9+cuda12.9" + from).out, HasSubstr("NCCL 2.28.9"));
  EXPECT_THAT(run("--nccl-version 2.30.8" + from).err, HasSubstr("NCCL 2.30.8 are not known"));
}

TEST_F(TopoCommand, HcaListThatAcceptsNothing_IsAnErrorThatListsTheHcas) {
  const Printed result = run("--hca mlx5_9 --from " + known(kMachine));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("mlx5_0, mlx5_1, mlx5_2, mlx5_3"));
  EXPECT_EQ(run("--hca mlx5_3 --from " + known(kMachine)).code, 0);
}

TEST_F(TopoCommand, FolderWithoutSys_IsAnErrorWithAdvice) {
  const Printed result = run("--from " + known(""));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("without sys/devices"));
  EXPECT_THAT(result.err, HasSubstr("hwloc-gather-topology"));
}

TEST_F(TopoCommand, FromStandardInput_ReadsAPipeOfEveryFormat) {
  for (const char* file : {"nccl-hgx-4nic.xml", "hwloc-dgx-h100.xml"}) {
    std::ifstream stream(known(file));
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    for (const char* name : {"-", "/dev/stdin"}) {
      const Printed result = run_with_input(text, std::string("--from ") + name + " --json");
      EXPECT_EQ(result.code, 0) << result.err;
      EXPECT_EQ(Document::parse(result.out)["gpus"],
                Document::parse(run("--json --from " + known(file)).out)["gpus"]);
    }
  }
  EXPECT_NE(run_with_input("", "--from -").code, 0);
}

TEST_F(TopoCommand, TextOfNvidiaSmi_IsRead) {
  const std::string text =
      "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPXB\t0-7\t0\nNIC0\tPXB\t X \n"
      "NIC Legend:\n  NIC0: mlx5_7\n";
  const Printed result = run("--json --from " + write("smi.txt", text));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Document::parse(result.out)["hcas"][0]["name"], "mlx5_7");
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

TEST_F(TopoCommand, NcclsConfigurationFile_IsRead) {
  setenv("NCCL_CONF_FILE", write("nccl.conf", "NCCL_IB_HCA==mlx5_2\n").c_str(), 1);
  const Printed result = run("--json --from " + known(kMachine));
  unsetenv("NCCL_CONF_FILE");
  ASSERT_EQ(result.code, 0) << result.err;
  const Document hcas = Document::parse(result.out)["hcas"];
  ASSERT_EQ(hcas.size(), 1u);
  EXPECT_EQ(hcas[0]["name"], "mlx5_2");
}

TEST_F(TopoCommand, OptionsThatContradictEachOther_AreErrors) {
  const std::string one = " --from " + known(kMachine), two = one + " " + known(kMachine);
  for (const std::string& arguments :
       {"--check --env" + one, "--dot --nccl-xml" + one, "--json --env" + one, "--json --dot" + one,
        "--check --svg -" + one, "--json --svg -" + one, "--env" + two, "--dot" + two,
        "--svg -" + two, "--diff a b" + one, "--expect g --check" + one}) {
    const Printed result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.out, IsEmpty()) << arguments;
    EXPECT_THAT(result.err, HasSubstr("--")) << arguments;
  }
}

TEST_F(TopoCommand, HostsOfOneFile_AreChosenByNumberOrHashOrAll) {
  const std::string from = "--from " + known("cases/nvl72b.xml");
  auto host_of = [&](const std::string& arguments) {
    return Document::parse(run("--json " + from + arguments).out)["host"];
  };
  EXPECT_EQ(host_of(""), "0xabc0");
  EXPECT_EQ(host_of(" --host 1"), "0xabc1");
  EXPECT_EQ(host_of(" --host 0xabc1"), "0xabc1");
  const Printed all = run(from + " --host all");
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("\n0xabc0 "));
  EXPECT_THAT(all.out, HasSubstr("\n0xabc1 "));
  EXPECT_THAT(run(from).err, HasSubstr("describes 2 hosts, and this is the first"));
  EXPECT_THAT(all.err, Not(HasSubstr("describes")));
}

TEST_F(TopoCommand, HostThatDoesNotExist_IsAnErrorThatListsTheHosts) {
  const std::string from = " --from " + known("cases/nvl72b.xml");
  for (const char* host : {"2", "node17", "0xabc2"}) {
    const Printed result = run("--host " + std::string(host) + from);
    EXPECT_EQ(result.code, 2) << host;
    EXPECT_THAT(result.err, HasSubstr("--host: \"" + std::string(host) + "\" is not in "));
    EXPECT_THAT(result.err, HasSubstr("hosts: 0xabc0, 0xabc1; or a number from 0 to 1")) << host;
  }
  const Printed single = run("--host 1 --from " + known("hwloc-dgx-h100.xml"));
  EXPECT_EQ(single.code, 2);
  EXPECT_THAT(single.err, HasSubstr("Fix: leave it out: the file describes one host"));
  EXPECT_EQ(run("--host 0").code, 2);
  EXPECT_EQ(run("--host all --env" + from).code, 2);
}

TEST_F(TopoCommand, SeveralSources_AreLinesOfATable) {
  const std::string slow = copy("node2.xml", kMachine, kLinks, kFewerLinks);
  const Printed result = run("--from " + copy("node1.xml", kMachine) + " " + slow);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("node "));
  EXPECT_THAT(result.out, HasSubstr("\nnode1 "));
  EXPECT_THAT(result.out, HasSubstr("400 Gb/s  PIX   8          rails      ok\n"));
  EXPECT_THAT(result.out, HasSubstr("\nnode2 "));
  EXPECT_THAT(result.out, HasSubstr("400 Gb/s  PIX   8          rails      nvlink\n"));
}

TEST_F(TopoCommand, SeveralSourcesAsJson_AreJsonLines) {
  const Printed result = run("--json --from " + known(kMachine) + " " + known("nccl-dgx-a100.xml"));
  std::istringstream lines(result.out);
  std::vector<size_t> gpus;
  for (std::string line; std::getline(lines, line);) {
    gpus.push_back(Document::parse(line)["hcas"].size());
  }
  EXPECT_THAT(gpus, ::testing::ElementsAre(4, 10));
}

TEST_F(TopoCommand, OneOfSeveralCannotBeRead_TheOthersAreStillShown) {
  const Printed result = run("--from " + known(kMachine) + " " + write("bad.xml", "<html/>"));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("nccl-gdr: bad: "));
  EXPECT_THAT(result.out, HasSubstr("\nnccl-hgx-4nic "));
}

TEST_F(TopoCommand, SeveralOfOneName_AreDistinguishedByTheirSources) {
  fs::create_directories(folder_ / "a");
  const std::string one = copy("node.xml", kMachine), two = copy("a/node.xml", kMachine);
  const Printed result = run("--from " + one + " " + two);
  EXPECT_THAT(result.out, HasSubstr("\nnode (" + one + ") "));
  EXPECT_THAT(result.out, HasSubstr("\nnode (" + two + ") "));
}

TEST_F(TopoCommand, CheckOfAGoodMachine_IsOneLineAndSuccess) {
  const Printed result = run("--check --from " + known(kMachine));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "ok: 8 GPUs, 4 rails\n");
  EXPECT_THAT(result.err, HasSubstr("note: "));
}

TEST_F(TopoCommand, CheckOfABadMachine_NamesTheFaultAndFails) {
  const std::string bad = copy("node7.xml", kMachine, kLinks, kFewerLinks);
  const Printed result = run("--check --from " + known(kMachine) + " " + bad);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, StartsWith("nccl-hgx-4nic: ok: "));
  EXPECT_THAT(result.out,
              HasSubstr("\nnode7: nvlink: GPU0 (0000:12:00.0): 17 NVLinks to NVSwitches"));
}

TEST_F(TopoCommand, CheckOfSeveral_PrintsANoteOnceForAll) {
  const Printed result =
      run("--check --from " + copy("node1.xml", kMachine) + " " + copy("node2.xml", kMachine));
  const std::string note = "ACS, IOMMU, BARs";
  const size_t first = result.err.find("note: " + note);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(result.err.find(note, first + 10), std::string::npos);
}

// The list names one HCA twice, which only node2 has.
TEST_F(TopoCommand, NoteThatOneNodeGivesTwice_IsNotTakenForANoteOfAll) {
  const std::string nodes =
      copy("node1.xml", kMachine) + " " + copy("node2.xml", kMachine, "mlx5_3", "mlx5_77");
  const Printed result = run("--check --hca ^mlx5_77:1,mlx5_77:1 --from " + nodes);
  EXPECT_THAT(result.err, HasSubstr("note: node1: --hca ^mlx5_77:1,mlx5_77:1: "));
}

TEST_F(TopoCommand, CheckAsJson_HasTheFaults) {
  const std::string bad = copy("node7.xml", kMachine, kLinks, kFewerLinks);
  const Printed result = run("--check --json --from " + bad);
  EXPECT_EQ(result.code, 1);
  const Document json = Document::parse(result.out);
  EXPECT_EQ(json["node"], "node7");
  EXPECT_EQ(json["ok"], false);
  ASSERT_EQ(json["faults"].size(), 1u);
  EXPECT_EQ(json["faults"][0]["check"], "nvlink");
  EXPECT_EQ(json["faults"][0]["subject"], "GPU0 (0000:12:00.0)");
  EXPECT_FALSE(json["notes"].empty());
}

TEST_F(TopoCommand, DiffOfAMachineWithItself_IsEmptyAndSuccess) {
  const Printed result = run("--diff " + known(kMachine) + " " + golden(kMachine));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
}

TEST_F(TopoCommand, HcaListThatLeavesGpusWorseOff_IsAFaultAndIsTakenBack) {
  const std::string source = "--hca mlx5_0,mlx5_1 --from " + known(kMachine);
  EXPECT_THAT(run(source).out, HasSubstr("\n  mlx5_2:1 is excluded by NCCL_IB_HCA\n"));
  const Printed check = run("--check " + source);
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.out, HasSubstr("--hca mlx5_0,mlx5_1 leaves out mlx5_2:1, mlx5_3:1"));
  const std::string env = run("--env " + source).out;
  EXPECT_THAT(env, HasSubstr("unset NCCL_IB_HCA\n"));
  EXPECT_THAT(env, Not(HasSubstr("export NCCL_IB_HCA")));
}

// The kinds of faults of a machine, each once: "rail-share gdr-reach".
std::string kinds_of(const std::string& check) {
  std::istringstream lines(check);
  std::string kinds, last;
  for (std::string line; std::getline(lines, line);) {
    const std::string kind = line.substr(0, line.find(':'));
    if (kind != last) kinds += (kinds.empty() ? "" : " ") + kind;
    last = kind;
  }
  return kinds;
}

TEST_F(TopoCommand, FaultsOfKnownMachines_AreThose) {
  const std::pair<const char*, const char*> machines[] = {
      {"nccl-dgx-a100.xml", "ok"},       {"nccl-amd-8gpu.xml", "ok"},
      {"nccl-gb200-tray.xml", "ok"},     {"hwloc-dual-port-cards.xml", "ok"},
      {"cases/gb10b.xml", "ok"},         {"nccl-cross-wired.xml", "rail-share gdr-reach"},
      {"cases/nogpu.xml", "no-gpu"},     {"hwloc-two-socket-plain.xml", "gdr-reach"},
      {"hwloc-flat-vm.xml", "gdr-reach"}};
  for (const auto& [file, kinds] : machines) {
    EXPECT_EQ(kinds_of(run("--check --from " + known(file)).out), kinds) << file;
  }
}

TEST_F(TopoCommand, LineThatCheckNames_IsThatOfEnv) {
  for (const char* file : {"hwloc-two-socket-plain.xml", "hwloc-flat-vm.xml", "hwloc-power9.xml"}) {
    EXPECT_THAT(run("--check --from " + known(file)).out,
                HasSubstr("Fix: export NCCL_NET_GDR_LEVEL=PHB, and measure both"));
    EXPECT_THAT(run("--env --from " + known(file)).out,
                HasSubstr("\nexport NCCL_NET_GDR_LEVEL='PHB'\n"));
  }
}

TEST_F(TopoCommand, NameInAnHcaListThatMatchesNothing_IsWarnedAbout) {
  const std::string from = " --from " + known(kMachine);
  EXPECT_THAT(run("--hca mlx5_0,mlx5_77" + from).err,
              HasSubstr("warning: --hca mlx5_0,mlx5_77: \"mlx5_77\" matches no port"));
  EXPECT_THAT(run("--hca =mlx5_0,mlx5_" + from).err, HasSubstr("\"mlx5_\" matches no port"));
  EXPECT_THAT(run("--hca mlx5_0:7,mlx5_1" + from).err, HasSubstr("\"mlx5_0:7\" matches no port"));
  EXPECT_THAT(run("--hca mlx5_0,mlx5_" + from).err, Not(HasSubstr("matches no port")));
  EXPECT_THAT(run("--hca ^mlx5_77" + from).err, HasSubstr("note: --hca ^mlx5_77: \"mlx5_77\""));
}

TEST_F(TopoCommand, SettingThatLeavesGpusWorseOff_IsNamedWithItsValue) {
  const std::string map = "GPU0=mlx5_3";
  const std::string of_map = run("--check --rail-map " + map + " --from " + known(kMachine)).out;
  EXPECT_THAT(of_map, HasSubstr("--rail-map GPU0=mlx5_3 leaves out mlx5_0:1, "));
  EXPECT_THAT(of_map, Not(HasSubstr("--hca")));
}

TEST_F(TopoCommand, ListThatRestrictsNothing_IsKeptWhereTheMapIsTakenBack) {
  const std::string env = run("--env --hca mlx5_0,mlx5_1,mlx5_2,mlx5_3 --rail-map GPU0=mlx5_3 "
                              "--from " +
                              known(kMachine))
                              .out;
  EXPECT_THAT(env, StartsWith("# --rail-map GPU0=mlx5_3: this gives GPU"));
  EXPECT_THAT(env, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(env, Not(HasSubstr("unset NCCL_IB_HCA\n")));
  const std::string fewer =
      run("--env --hca ^mlx5_3 --rail-map GPU0=mlx5_0 --from " + known(kMachine)).out;
  EXPECT_THAT(fewer, HasSubstr("unset NCCL_IB_HCA\n"));
}

TEST_F(TopoCommand, ListOfTheEnvironment_DoesNotApplyToHcasThatTheFileHasNoNamesOf) {
  const std::string file = known("nccl-azure-ndv5.xml");
  setenv("NCCL_IB_HCA", "mlx5_ib", 1);
  const Printed result = run("--check --from " + file);
  unsetenv("NCCL_IB_HCA");
  EXPECT_THAT(result.out, Not(HasSubstr("setting: ")));
  EXPECT_THAT(result.err, HasSubstr("NCCL_IB_HCA=mlx5_ib: does not apply to "));
  EXPECT_EQ(run("--check --hca mlx5_ib --from " + file).code, 2);
}

TEST_F(TopoCommand, Diff_NamesBothMachines) {
  const std::string good = copy("a.xml", kMachine);
  const std::string bad = copy("b.xml", kMachine, kLinks, kFewerLinks);
  const Printed result = run("--diff " + good + " " + bad);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("GPU0: NVLinks: 18 to NVSwitches in " + good +
                                    ", 17 to NVSwitches in " + bad + "\n"));
  const Document json = Document::parse(run("--json --diff " + good + " " + bad).out);
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["differences"][0], Document({{"subject", "GPU0"},
                                              {"property", "NVLinks"},
                                              {"first", "18 to NVSwitches"},
                                              {"second", "17 to NVSwitches"}}));
}

TEST_F(TopoCommand, NodeThatCannotBeRead_IsADocumentWithTheError) {
  const std::string from = " --json --from " + write("bad.xml", "<x/>") + " " + known(kMachine);
  for (const std::string& mode : {std::string("--check"), "--expect " + golden(kMachine)}) {
    const Printed result = run(mode + from);
    EXPECT_EQ(result.code, 2) << mode;
    std::istringstream lines(result.out);
    std::string first, second;
    ASSERT_TRUE(std::getline(lines, first) && std::getline(lines, second)) << result.out;
    const Document error = Document::parse(first);
    EXPECT_EQ(error["node"], "bad");
    EXPECT_EQ(error["ok"], false);
    EXPECT_THAT(error["error"].get<std::string>(), HasSubstr("bad.xml: "));
    EXPECT_FALSE(Document::parse(second).contains("error"));
  }
}

TEST_F(TopoCommand, DiffOfTwoHostsOfOneFile_NamesBothHosts) {
  const std::string file =
      copy("d.xml", "cases/nvl72b.xml", "speed=\"400000\"", "speed=\"200000\"");
  const std::string jsonl = write("d.json", run("--json --host all --from " + file).out);
  for (const std::string& name : {file, jsonl}) {
    const std::string diff = "--diff " + name + " " + name;
    const Printed result = run(diff + " --host 0,0xabc1");
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_THAT(result.out, HasSubstr("200 Gb/s in " + name + " host 0, 400 Gb/s in " + name +
                                      " host 0xabc1\n"));
    EXPECT_EQ(run(diff + " --host 1").code, 0);
    const Printed wrong = run(diff + " --host 0,7");
    EXPECT_EQ(wrong.code, 2);
    EXPECT_THAT(wrong.err, HasSubstr("--host: \"7\" is not in "));
    EXPECT_THAT(wrong.err, HasSubstr("hosts: 0xabc0, 0xabc1; or a number from 0 to 1"));
    EXPECT_EQ(run(diff + " --host all").code, 2);
  }
  EXPECT_THAT(run("--diff " + jsonl + " " + jsonl).err, HasSubstr("--host A,B"));
  EXPECT_THAT(run("--diff live " + file + " --host 1").err, HasSubstr("live is none"));
}

TEST_F(TopoCommand, Expect_IsOneLineForEachNodeOfAFleet) {
  const std::string fleet =
      copy("node1.xml", kMachine) + " " + copy("node2.xml", kMachine, kLinks, kFewerLinks) + " " +
      copy("node3.xml", kMachine, "guid=\"0x1400000000000002\"", "guid=\"1\"");
  const Printed result = run("--expect " + golden(kMachine) + " --from " + fleet);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.out, StartsWith("node1: ok\nnode2: 1 difference: GPU0: NVLinks: 17, expected "
                                     "18 (to NVSwitches)\nnode3: ok\n"));
}

TEST_F(TopoCommand, ExpectOfHcasThatTheUserExcludes_NamesTheSetting) {
  const Printed result = run("--expect " + golden(kMachine) + " --hca mlx5_0,mlx5_1 --from " +
                             copy("n.xml", kMachine));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(" are excluded by NCCL_IB_HCA"), Not(HasSubstr("missing"))));
}

TEST_F(TopoCommand, ExpectAlso_ComparesWhatMayDifferOtherwise) {
  const std::string node = copy("n.xml", kMachine, "guid=\"0x1400000000000002\"", "guid=\"1\"");
  const std::string expect = "--expect " + golden(kMachine) + " --from " + node;
  EXPECT_EQ(run(expect).code, 0);
  EXPECT_EQ(run(expect + " --expect-also names,addresses").code, 0);
  const Printed result = run(expect + " --expect-also names,guids");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("mlx5_0: GUID: "));
}

TEST_F(TopoCommand, ExpectWithNullInTheGoldenFile_AcceptsAnyValue) {
  const std::string node = copy("node2.xml", kMachine, kLinks, kFewerLinks);
  Document document = Document::parse(run("--json --from " + known(kMachine)).out);
  document["gpus"][0]["nvlinks"] = nullptr;
  const std::string open = write("open.json", document.dump());
  EXPECT_EQ(run("--expect " + golden(kMachine) + " --from " + node).code, 1);
  EXPECT_EQ(run("--expect " + open + " --from " + node).code, 0);
  EXPECT_EQ(run("--expect " + golden(kMachine) + " --from " + open).code, 1);
}

TEST_F(TopoCommand, ExpectOfJsonLines_IsOneLineForEachDocument) {
  const std::string fleet =
      write("fleet.jsonl", run("--json --from " + copy("node1.xml", kMachine) + " " +
                               copy("node2.xml", kMachine, kLinks, kFewerLinks))
                               .out);
  const Printed result = run("--expect " + golden(kMachine) + " --from " + fleet);
  EXPECT_EQ(result.code, 1) << result.err;
  std::istringstream lines(result.out);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_THAT(first, HasSubstr(": ok"));
  EXPECT_THAT(second, HasSubstr(": 1 difference: "));
}

TEST_F(TopoCommand, GoldenFileOfAMachineWithoutGpus_IsRefused) {
  Document document = Document::parse(run("--json --from " + known(kMachine)).out);
  document["gpus"] = Document::array();
  const Printed result =
      run("--expect " + write("empty.json", document.dump()) + " --from " + known(kMachine));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("describes a machine without GPUs"));
}

TEST_F(TopoCommand, ExpectWithAnotherSchemaVersion_IsAnErrorThatNamesBoth) {
  Document document = Document::parse(run("--json --from " + known(kMachine)).out);
  document["schema_version"] = topo::kJsonSchemaVersion + 1;
  const Printed result =
      run("--expect " + write("g.json", document.dump()) + " --from " + known(kMachine));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err,
              HasSubstr("schema_version " + std::to_string(topo::kJsonSchemaVersion + 1)));
  EXPECT_THAT(result.err, HasSubstr("reads " + std::to_string(topo::kJsonSchemaVersion)));
}

TEST_F(TopoCommand, ExpectWithAFileOfAnotherKind_IsAnError) {
  for (const std::string& text : {std::string("{}"), std::string("[1]"), std::string("<x/>"),
                                  std::string(""), std::string("{\"gpus\": ")}) {
    const Printed result = run("--expect " + write("g.json", text) + " --from " + known(kMachine));
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr("g.json")) << text;
  }
  EXPECT_EQ(run("--expect /nonexistent.json --from " + known(kMachine)).code, 2);
}

TEST_F(TopoCommand, ExpectWithAFileOfAMachine_SaysWhatItIsAndWhatIsExpected) {
  for (const char* file : {kMachine, "hwloc-one-gpu.xml"}) {
    const Printed result = run("--expect " + known(file) + " --from " + known(kMachine));
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr(file == kMachine ? "a NCCL topology file" : "hwloc XML"));
    EXPECT_THAT(result.err, HasSubstr("--json > golden.json"));
    EXPECT_THAT(result.err, HasSubstr("--diff"));
    EXPECT_THAT(result.err, Not(HasSubstr("parse")));
  }
}

TEST_F(TopoCommand, ErrorsAboutFilesOfOneName_HaveEachPathOnce) {
  fs::create_directory(folder_ / "a");
  const std::string first = write("n.xml", "<x"), second = write("a/n.xml", "<x");
  const std::string errors = run("--from " + first + " " + second).err;
  for (const std::string& path : {first, second}) {
    EXPECT_EQ(errors.find(path), errors.rfind(path)) << errors;
    EXPECT_NE(errors.find(path), std::string::npos) << errors;
  }
}

TEST_F(TopoCommand, ExpectWithAFolder_SaysThatItIsOne) {
  EXPECT_THAT(run("--expect " + known("") + " --from " + known(kMachine)).err,
              HasSubstr("Is a directory"));
}

TEST_F(TopoCommand, RailMapOfTheEnvironment_CountsLikeTheOption) {
  const std::string source = " --from " + known(kMachine);
  const std::string map = "GPU0=mlx5_3;GPU7=mlx5_0";
  auto by_environment = [&](const std::string& mode) {
    setenv("GDR_NCCL_RAIL_MAP", map.c_str(), 1);
    const Printed result = run(mode + source);
    unsetenv("GDR_NCCL_RAIL_MAP");
    return result;
  };
  auto by_option = [&](const std::string& mode) {
    return run(mode + " --rail-map '" + map + "'" + source);
  };
  EXPECT_THAT(by_environment("--check").out,
              HasSubstr("GDR_NCCL_RAIL_MAP=GPU0=mlx5_3;GPU7=mlx5_0 leaves out mlx5_1:1"));
  EXPECT_THAT(by_option("--check").out,
              HasSubstr("--rail-map GPU0=mlx5_3;GPU7=mlx5_0 leaves out mlx5_1:1"));
  EXPECT_THAT(by_option("--env").out, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(by_environment("--env").out, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(by_environment("").out,
              HasSubstr("\nRails, by GDR_NCCL_RAIL_MAP in the environment\n"));
  EXPECT_THAT(by_option("").out, HasSubstr("\nRails, by --rail-map\n"));
}

TEST_F(TopoCommand, RailMapThatDoesNotFit_IsNotTheRailsOrigin) {
  setenv("GDR_NCCL_RAIL_MAP", "GPU0=mlx5_99", 1);
  const Printed result = run("--from " + known(kMachine));
  unsetenv("GDR_NCCL_RAIL_MAP");
  EXPECT_THAT(result.out, HasSubstr("\nRails\n"));
}

TEST_F(TopoCommand, LevelOfNcclsConfigurationFile_IsTakenBackByItsLine) {
  const std::string file = write("nccl.conf", "# site\nNCCL_NET_GDR_LEVEL=LOC\n");
  setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const Printed result = run("--env --from " + known(kMachine));
  unsetenv("NCCL_CONF_FILE");
  EXPECT_THAT(result.out, HasSubstr("# Line 2 of " + file + " sets NCCL_NET_GDR_LEVEL: "));
  EXPECT_THAT(result.out, HasSubstr("\nexport NCCL_NET_GDR_LEVEL=''\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("unset")));
}

TEST_F(TopoCommand, SettingsThatCannotBeUsed_AreTakenBack) {
  const std::string file = write("nccl.conf", "NCCL_IB_TC=800\n");
  const std::pair<const char*, const char*> set[] = {{"NCCL_CONF_FILE", file.c_str()},
                                                     {"NCCL_NET_GDR_LEVEL", "FOO"},
                                                     {"GDR_NCCL_RAIL_MAP", "GPU0=mlx5_99"}};
  for (const auto& [name, value] : set) setenv(name, value, 1);
  const std::string env = run("--env --from " + known(kMachine)).out;
  for (const auto& [name, value] : set) unsetenv(name);
  EXPECT_THAT(env, HasSubstr("# NCCL_NET_GDR_LEVEL=FOO cannot be used: the warning says why. The "
                             "default counts.\nunset NCCL_NET_GDR_LEVEL\n"));
  EXPECT_THAT(env, HasSubstr("\nunset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(env, HasSubstr("# Line 1 of " + file + " sets NCCL_IB_TC: remove it there."));
  EXPECT_THAT(env, HasSubstr("\nexport NCCL_IB_TC=''\n"));
  EXPECT_THAT(env, Not(HasSubstr("--check")));
}

TEST_F(TopoCommand, LevelOptionThatKeepsGpusFromGpuDirect_IsNamedAndNotExported) {
  const std::string source = " --gdr-level LOC --from " + known(kMachine);
  const std::string env = run("--env" + source).out;
  EXPECT_THAT(env, StartsWith("# --gdr-level LOC keeps GPU0, GPU1, GPU2 and 5 more from"));
  EXPECT_THAT(env, Not(HasSubstr("NCCL_NET_GDR_LEVEL")));
  const std::string check = run("--check" + source).out;
  EXPECT_THAT(check, HasSubstr("Fix: leave out --gdr-level LOC\n"));
  EXPECT_THAT(check, Not(HasSubstr("unset")));
  setenv("NCCL_NET_GDR_LEVEL", "LOC", 1);
  const std::string env_of_both = run("--env" + source).out;
  const std::string check_of_variable = run("--check --from " + known(kMachine)).out;
  unsetenv("NCCL_NET_GDR_LEVEL");
  EXPECT_THAT(env_of_both, HasSubstr("\nunset NCCL_NET_GDR_LEVEL\n"));
  EXPECT_THAT(check_of_variable, HasSubstr("Fix: unset NCCL_NET_GDR_LEVEL\n"));
}

TEST_F(TopoCommand, LevelOfNcclsFileThatKeepsGpusFromGpuDirect_IsAFaultWithItsLine) {
  const std::string file = write("nccl.conf", "NCCL_NET_GDR_LEVEL=LOC\n");
  setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const std::string check = run("--check --from " + known(kMachine)).out;
  unsetenv("NCCL_CONF_FILE");
  EXPECT_THAT(check, HasSubstr("Fix: remove NCCL_NET_GDR_LEVEL from line 1 of " + file + "\n"));
}

TEST_F(TopoCommand, FaultsThatNoSettingFixes_AreCountedBelowTheSettings) {
  const std::string env = run("--env --from " + known("nccl-cross-wired.xml")).out;
  EXPECT_THAT(env, HasSubstr("\nexport NCCL_NET_GDR_LEVEL='PHB'\n"
                             "# `nccl-gdr topo --check` finds 3 faults that no advised setting "
                             "fixes: run it.\n"));
}

TEST_F(TopoCommand, WarningAboutAListThatIsTakenBack_IsNotCountedAsLeft) {
  setenv("NCCL_IB_HCA", "mlx5_0,mlx5_99", 1);
  const std::string env = run("--env --from " + known(kMachine)).out;
  unsetenv("NCCL_IB_HCA");
  EXPECT_THAT(env, HasSubstr("\nunset NCCL_IB_HCA\n"));
  EXPECT_THAT(env, Not(HasSubstr("--check")));
}

TEST_F(TopoCommand, EnvOfASourceWithoutNames_IsAnErrorWithAdvice) {
  const std::string matrix =
      "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPXB\t0-7\t0\nNIC0\tPXB\t X \n";
  const Printed made_up = run("--env --from " + write("smi.txt", matrix));
  EXPECT_EQ(made_up.code, 2);
  EXPECT_THAT(made_up.out, IsEmpty());
  EXPECT_THAT(made_up.err, HasSubstr("(made-up names: NIC0)"));
  EXPECT_EQ(run("--env --from " + write("s.txt", matrix + "NIC Legend:\n  NIC0: mlx5_0\n")).code,
            0);
  const Printed addresses = run("--env --from " + known("nccl-azure-ndv5.xml"));
  EXPECT_EQ(addresses.code, 2);
  EXPECT_THAT(addresses.out, IsEmpty());
  EXPECT_THAT(addresses.err, HasSubstr("(PCI addresses: 0201:00:00.0, 0202:00:00.0"));
}

TEST_F(TopoCommand, Env_IsTextForAShell) {
  const Printed result = run("--env --from " + known("nccl-dgx-a100.xml"));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,"));
}

}  // namespace
}  // namespace gdr::tools
