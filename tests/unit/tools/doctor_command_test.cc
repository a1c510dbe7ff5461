// The subcommand doctor from the command line to its output and exit code.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/fakes/temp_folder.h"
#include "tests/unit/tools/command_run.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class DoctorCommandRun : public ::testing::Test {
 protected:
  // Runs with the folder of the test as the machine.
  Printed run(const std::string& arguments) const {
    return run_as_is("--root " + folder_.path().string() + " " + arguments);
  }

  static Printed run_as_is(const std::string& arguments) {
    return run_command("doctor " + arguments);
  }

  // The limit of a machine with an HCA, since one without needs no locked memory.
  void write_limit(const std::string& bytes) const {
    fs::create_directories(folder_.path() / "sys/class/infiniband/mlx5_0");
    fs::create_directories(folder_.path() / "proc/self");
    std::ofstream(folder_.path() / "proc/self/limits")
        << "Max locked memory         " << bytes << "    " << bytes << "    bytes\n";
  }

  const TempFolder folder_;
};

TEST_F(DoctorCommandRun, FailedCheck_ExitsWith1InEveryForm) {
  write_limit("65536");
  for (const char* form : {"", "--all", "--json", "--prometheus"}) {
    const Printed result = run(std::string("--check memory-lock ") + form);
    EXPECT_EQ(result.code, 1) << form;
    EXPECT_NE(result.out, "") << form;
  }
}

TEST_F(DoctorCommandRun, NothingToLookAt_ExitsWith3) {
  fs::create_directories(folder_.path() / "proc");
  EXPECT_EQ(run("--check memory-lock").code, 3);
  const Printed result = run("--check memory-lock --json");
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(nlohmann::json::parse(result.out)["exit_status"], 3);
}

TEST_F(DoctorCommandRun, NoDeviceThatTheCheckIsAbout_ExitsWith0) {
  fs::create_directories(folder_.path() / "proc");
  EXPECT_EQ(run("--check port-state,ip-subnets").code, 3);
  fs::create_directories(folder_.path() / "sys/class");
  const Printed result = run("--check port-state,ip-subnets --json");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(nlohmann::json::parse(result.out)["verdict"], "nothing");
  EXPECT_EQ(nlohmann::json::parse(result.out)["exit_status"], 0);
}

TEST_F(DoctorCommandRun, FolderWithoutAMachine_ExitsWith2) {
  const Printed result = run("");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("neither proc nor sys"));
}

TEST_F(DoctorCommandRun, FoldersInPlaceOfFiles_EndNormally) {
  for (const char* file : {"proc/1/cgroup", "proc/net/route", "proc/sys/kernel/hostname"}) {
    fs::create_directories(folder_.path() / file);
  }
  EXPECT_EQ(run("--fingerprint").code, 0);
  EXPECT_EQ(run("").err, "");
}

TEST_F(DoctorCommandRun, FolderThatDoesNotExist_ExitsWith2) {
  const Printed result = run_as_is("--root /does/not/exist");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("/does/not/exist"));
}

TEST_F(DoctorCommandRun, WrongUsage_ExitsWith2AndPrintsNothing) {
  for (const char* arguments :
       {"--check no-such-check", "--json --prometheus", "--no-such-option", "--list --json",
        "--check memory-lock,wrong", "--fingerprint --check memory-lock", "--all --json",
        "unexpected"}) {
    const Printed result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_NE(result.err, "") << arguments;
  }
}

TEST_F(DoctorCommandRun, OptionsThatHaveNoEffectTogether_AreNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {"--from x.xml --root /tmp", "--root excludes --from"},
      {"--from x.xml --fingerprint", "--from excludes --fingerprint"},
      {"--from x.xml --expect y", "--from excludes --expect"},
      {"--host 0", "--host requires --from"},
      {"--nccl-version 2.28.3", "--nccl-version requires --from"},
      {"--expect x --fingerprint", "--expect excludes --fingerprint"},
      {"--from x.xml --since y", "--from excludes --since"}};
  for (const auto& [arguments, text] : cases) {
    const Printed result = run_as_is(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(text)) << arguments;
  }
}

TEST_F(DoctorCommandRun, FilesThatCannotBeCompared_ExitWith2AndAreNamed) {
  const fs::path bad = folder_.path() / "bad.json";
  std::ofstream(bad) << "no JSON";
  for (const std::string& other :
       {bad.string(), folder_.path().string(), bad.string() + "x", std::string("/dev/zero")}) {
    for (const char* option : {"--expect ", "--since "}) {
      const Printed result = run_as_is(option + other);
      EXPECT_EQ(result.code, 2) << option << other;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, HasSubstr(other));
    }
  }
  EXPECT_EQ(run_as_is("--expect ''").code, 2);
}

TEST_F(DoctorCommandRun, GoodMachine_IsWhatThisOneIsComparedWith) {
  const fs::path good = folder_.path() / "good.json";
  fs::create_directories(folder_.path() / "sys/class/infiniband/mlx5_0");
  const Printed without_gpus = run("--fingerprint");
  constexpr char kNoGpus[] = "a machine without GPUs cannot be a reference";
  EXPECT_THAT(without_gpus.err, HasSubstr(kNoGpus));
  std::ofstream(good) << without_gpus.out;
  const Printed refused = run("--expect " + good.string());
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr(good.string() + ": " + kNoGpus));
  auto json = nlohmann::json::parse(run_as_is("--fingerprint").out);
  for (const char* kind : {"GPU", "HCA"}) {
    json["devices"][kind].push_back(nlohmann::json::parse(without_gpus.out)["devices"]["HCA"][0]);
    json["devices"][kind].back()["name"] = std::string(kind) + "99";
    json["devices"][kind].back()["address"] = "ffff:00:00.0";
  }
  std::ofstream(good) << json;
  const Printed differing = run_as_is("--check good-machine --expect " + good.string());
  EXPECT_EQ(differing.code, 1);
  EXPECT_THAT(differing.out, HasSubstr("GPU99 (ffff:00:00.0), HCA99 (ffff:00:00.0): missing: "));
}

TEST_F(DoctorCommandRun, EarlierReport_ShowsHowCountersMoved) {
  const std::string hca = "sys/class/infiniband/mlx5_0/",
                    upstream = "sys/devices/pci0000:3a/0000:3a:00.0/",
                    function = upstream + "0000:3b:00.0/",
                    file = (folder_.path() / "a.json").string();
  for (const char* link :
       {"sys/class/infiniband/mlx5_0/device", "sys/bus/pci/devices/0000:3b:00.0"}) {
    fs::create_directories((folder_.path() / link).parent_path());
    fs::create_directory_symlink(folder_.path() / function, folder_.path() / link);
  }
  const std::string since = "--check error-counters --since " + file;
  const auto write_machine = [&](const char* uptime, const char* link_downed) {
    for (const auto& [name, text] : std::map<std::string, std::string>{
             {"proc/stat", "cpu 1\nbtime 1790000000"},
             {"proc/uptime", uptime},
             {"proc/sys/kernel/hostname", "node17"},
             {"proc/sys/kernel/random/boot_id", "aaaa"},
             {hca + "node_guid", "946d:ae03:00c0:1234"},
             {hca + "ports/1/link_layer", "Ethernet"},
             {hca + "parent", "eth0"},
             {"sys/class/net/eth0/carrier_changes", "2"},
             {function + "vendor", "0x15b3"},
             {function + "aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0"},
             {function + "aer_dev_correctable", "RxErr 7\nTOTAL_ERR_COR 7"},
             {upstream + "aer_dev_nonfatal", "DLP 2\nTOTAL_ERR_NONFATAL 2"},
             {hca + "ports/1/counters/link_downed", link_downed}}) {
      fs::create_directories((folder_.path() / name).parent_path());
      std::ofstream(folder_.path() / name) << text << "\n";
    }
  };
  write_machine("10000.17 9.9", "14");
  auto report = nlohmann::json::parse(run("--json --check memory-lock").out);
  EXPECT_EQ(report["counters"]["time"], 1790010000);
  EXPECT_EQ(report["counters"]["ports"].dump(),
            R"([{"device":"mlx5_0","guid":"946d:ae03:00c0:1234","port":1,)"
            R"("values":{"aer_dev_correctable":7,"aer_dev_fatal":0,"carrier_changes":2,)"
            R"("link_downed":14,"upstream_aer_dev_nonfatal":2}}])");
  std::ofstream(file) << report;
  EXPECT_THAT(run_as_is(since).err, HasSubstr("is of the machine \"node17\", and this is"));
  EXPECT_THAT(run(since).err, HasSubstr("is not older than the counters of the machine"));
  write_machine("17200.17 9.9", "20");
  EXPECT_THAT(run(since).out, HasSubstr("link_downed 6 (20 in all) in the last 2 h: the link"));
  EXPECT_EQ(run(since).code, 1);
  // Each is added to those before.
  const std::tuple<const char*, nlohmann::json, int, const char*> cases[] = {
      {"/host", "container", 1, "link_downed 6"},
      {"/ports/0/guid", "of another card", 3, "--since has no counters"},
      {"/host", "node17", 3, "--since has no counters"},
      {"/boot_id", "bbbb", 2, "has none of this machine's HCAs"},
      {"/ports/0/guid", "", 3, "from this boot"},
      {"/time", 0, 2, "does not state the time"},
      {"/ports/0/values/link_downed", "x", 2, "another type of value. Fix: make one"}};
  for (const auto& [place, value, code, text] : cases) {
    report["counters"][nlohmann::json::json_pointer(place)] = value;
    std::ofstream(file) << report;
    const Printed result = run(since);
    EXPECT_EQ(result.code, code) << place << value;
    EXPECT_THAT(result.out + result.err, HasSubstr(text));
  }
}

TEST_F(DoctorCommandRun, List_NamesEveryCheckAndExitsWith0) {
  const Printed result = run_as_is("--list");
  EXPECT_EQ(result.code, 0);
  for (const doctor::Check& check : doctor::all_checks()) {
    EXPECT_THAT(result.out, HasSubstr(std::string(check.name) + " "));
  }
}

TEST_F(DoctorCommandRun, ThisMachine_GivesAReportOrNothingToLookAt) {
  const Printed result = run_as_is("--json");
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["checks"].size(), doctor::all_checks().size());
  EXPECT_EQ(json["exit_status"], result.code);
}

// A check is named once, by a name that a shell and a label can have, and describes itself.
TEST(DoctorChecks, Descriptions_AreComplete) {
  std::set<std::string> names;
  for (const doctor::Check& check : doctor::all_checks()) {
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
    EXPECT_THAT(check.name, ::testing::MatchesRegex("[a-z0-9]+(-[a-z0-9]+)*"));
    EXPECT_NE(std::string(check.looks_at), "") << check.name;
    EXPECT_TRUE(std::string(check.why).ends_with('.')) << check.name;
    EXPECT_NE(check.run, nullptr) << check.name;
  }
}

}  // namespace
}  // namespace gdr::tools
