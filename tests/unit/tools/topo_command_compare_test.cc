// --diff and --expect.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/tools/topo_command_fixture.h"
#include "tools/topo/render.h"

namespace gdr::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Document = nlohmann::ordered_json;

TEST_F(TopoCommand, DiffOfAMachineWithItself_IsEmptyAndSuccess) {
  const Printed result = run("--diff " + known(kMachine) + " " + golden(kMachine));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
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

}  // namespace
}  // namespace gdr::tools
