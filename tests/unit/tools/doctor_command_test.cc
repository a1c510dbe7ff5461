// The subcommand doctor from the command line to its output and exit code.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
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

TEST_F(DoctorCommandRun, HealthyCheck_ExitsWith0) {
  write_limit("unlimited");
  const Printed result = run("--check memory-lock");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("ok       memory-lock\n"));
  EXPECT_EQ(result.err, "");
}

TEST_F(DoctorCommandRun, FailedCheck_ExitsWith1InEveryForm) {
  write_limit("65536");
  for (const char* form : {"", "--all", "--json", "--prometheus", "--fix-script"}) {
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
  EXPECT_EQ(run("--check port-state,device-files").code, 3);
  fs::create_directories(folder_.path() / "sys/class");
  const Printed result = run("--check port-state,device-files --json");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(nlohmann::json::parse(result.out)["verdict"], "nothing");
  EXPECT_EQ(nlohmann::json::parse(result.out)["exit_status"], 0);
}

TEST_F(DoctorCommandRun, FolderWithoutAMachine_ExitsWith3) {
  const Printed result = run("");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("neither proc nor sys"));
}

TEST_F(DoctorCommandRun, FoldersInPlaceOfFiles_EndNormally) {
  for (const char* file : {"proc/1/cgroup", "proc/net/route", "proc/sys/kernel/hostname"}) {
    fs::create_directories(folder_.path() / file);
  }
  EXPECT_EQ(run("--fingerprint").code, 0);
  EXPECT_EQ(run("").err, "");
}

TEST_F(DoctorCommandRun, FolderThatDoesNotExist_ExitsWith3) {
  const Printed result = run_as_is("--root /does/not/exist");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("/does/not/exist"));
}

TEST_F(DoctorCommandRun, WrongUsage_ExitsWith2AndPrintsNothing) {
  for (const char* arguments :
       {"--check no-such-check", "--json --prometheus", "--fix-script --json", "--no-such-option",
        "--list --json", "--check memory-lock,wrong", "--fingerprint --check memory-lock",
        "--all --json", "unexpected"}) {
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
      {"--expect x --fingerprint", "--expect excludes --fingerprint"}};
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
    const Printed result = run_as_is("--expect " + other);
    EXPECT_EQ(result.code, 2) << other;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(other));
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
