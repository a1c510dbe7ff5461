// The script is run by sh, in a folder of the test.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fakes/temp_folder.h"
#include "tests/unit/tools/doctor/report/made_report.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class FixScript : public ::testing::Test {
 protected:
  // Writes the script for steps of one check, each step as an observation of its own.
  void write_script(const std::vector<FixStep>& steps) {
    Observations observations;
    for (const FixStep& step : steps) observations.push_back(failure("", "bad", "fix", {step}));
    write_script_of(report_of({result_of("settings", Cost::kStops, observations)}));
  }
  void write_script_of(const Report& report) {
    std::ofstream(folder_.path() / "fix.sh", std::ios::binary) << to_fix_script(report);
  }

  // Returns the exit status of a command in the folder, whose output is kept.
  int shell(const std::string& command) {
    const std::string line = "cd '" + folder_.path().string() +
                             "' && export ANY_MACHINE=" + any_machine_ + " && { " + command +
                             "; } > output 2>&1";
    const int status = std::system(line.c_str());
    output_ = read("output");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string read(const std::string& name) const { return read_whole(folder_.path() / name); }

  // A step that sets a file's content, which was "old" before.
  static FixStep sets(const std::string& file) {
    return {"Sets " + file + ".", "echo new > " + file, "echo old > " + file};
  }

  TempFolder folder_;
  std::string output_;
  std::string any_machine_ = "1";
};

TEST_F(FixScript, ApplyThenUndo_RestoresWhatWasSeenBackwards) {
  write_script({sets("a"),
                {"Appends.", "echo +2 >> log", "echo -2 >> log"},
                {"Appends.", "echo +3 >> log", "echo -3 >> log"}});
  EXPECT_EQ(shell("sh fix.sh apply"), 0) << output_;
  EXPECT_EQ(output_, "fix 1: done\nfix 2: done\nfix 3: done\n");
  EXPECT_EQ(read("a") + read("log"), "new\n+2\n+3\n");
  EXPECT_EQ(shell("sh fix.sh undo"), 0) << output_;
  EXPECT_EQ(read("a") + read("log"), "old\n+2\n+3\n-3\n-2\n");
}

TEST_F(FixScript, StepsOfOneObservation_AreUndoneBackwards) {
  write_script_of(
      report_of({result_of("two", Cost::kStops,
                           {failure("", "bad", "fix",
                                    {{"First.", "echo +1 >> log", "echo -1 >> log"},
                                     {"No undo.", "echo +2 >> log", ""},
                                     {"Third.", "echo +3 >> log", "echo -3 >> log"}})})}));
  EXPECT_EQ(shell("sh fix.sh apply && sh fix.sh undo"), 0) << output_;
  EXPECT_EQ(read("log"), "+1\n+2\n+3\n-3\n-1\n");
}

TEST_F(FixScript, FixThatFails_IsNamedAndTheOthersGoOn) {
  write_script({sets("a"), {"Fails.", "false\necho after > after", "cat needed"}, sets("c")});
  EXPECT_EQ(shell("sh fix.sh apply"), 1);
  EXPECT_THAT(output_, HasSubstr("fix 2: FAILED with status 1\nfix 3: done\n"));
  EXPECT_FALSE(fs::exists(folder_.path() / "after"));
  EXPECT_EQ(shell("sh fix.sh undo"), 1);
  EXPECT_THAT(output_, HasSubstr("undo of fix 2: FAILED"));
  EXPECT_EQ(read("a") + read("c"), "old\nold\n");
}

TEST_F(FixScript, StepAfterAFailedOneOfTheSameObservation_IsLeftOut) {
  write_script_of(
      report_of({result_of("two", Cost::kStops,
                           {failure("", "bad", "fix", {{"Fails.", "exit 7", ""}, sets("a")}),
                            failure("", "other", "fix", {sets("b")})})}));
  EXPECT_EQ(shell("sh fix.sh apply"), 1);
  EXPECT_THAT(output_, HasSubstr("fix 1: FAILED with status 7\n"));
  EXPECT_FALSE(fs::exists(folder_.path() / "a"));
  EXPECT_EQ(read("b"), "new\n");
}

TEST_F(FixScript, OtherMachine_IsRefusedUnlessAskedFor) {
  any_machine_ = "";
  write_script({sets("a")});
  EXPECT_EQ(shell("sh fix.sh apply"), 2);
  EXPECT_THAT(output_, HasSubstr("for the machine node17"));
  EXPECT_FALSE(fs::exists(folder_.path() / "a"));
  EXPECT_EQ(shell("sed -i \"s/node17/$(uname -n)/\" fix.sh; sh fix.sh apply"), 0) << output_;
  EXPECT_EQ(read("a"), "new\n");
}

TEST_F(FixScript, WrongArguments_AreUsageErrorsAndRunNothing) {
  write_script({sets("a")});
  for (const char* arguments : {"", "wrong"}) {
    EXPECT_EQ(shell(std::string("sh fix.sh ") + arguments), 2) << arguments;
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "a"));
}

TEST_F(FixScript, TextsOfTheMachine_DoNotBecomeCommands) {
  const std::string bad = "a\ntouch bad1\r\ntouch bad2; $(touch bad3) `touch bad4`";
  Report report = report_of(
      {result_of("x", Cost::kStops,
                 {failure(bad, bad, bad, {{bad, ": >> a", ": >> b"}}), failure(bad, bad, bad)})});
  report.host = bad;
  write_script_of(report);
  EXPECT_EQ(shell("sh fix.sh apply && sh fix.sh undo"), 0) << output_;
  for (const char* name : {"bad1", "bad2", "bad3", "bad4"}) {
    EXPECT_FALSE(fs::exists(folder_.path() / name)) << name;
  }
}

TEST_F(FixScript, WithoutSteps_SaysSoAndListsWhatAPersonHasToDo) {
  any_machine_ = "";
  write_script_of(report_of({result_of("bios", Cost::kStops, {failure("", "bad", "set it")})}));
  EXPECT_EQ(shell("sh fix.sh apply"), 0);
  EXPECT_EQ(output_, "this script has no fixes\n");
  EXPECT_EQ(shell("sh fix.sh wrong"), 2);
  EXPECT_THAT(read("fix.sh"), HasSubstr("# bios: bad\n#   Fix: set it\n"));
}

TEST_F(FixScript, SettingsForJobs_AreLinesToCopy) {
  const std::string settings = "# Why.\nexport NCCL_NET_GDR_LEVEL='PHB'\n";
  for (const Report& report : {full_report(), report_of({})}) {
    EXPECT_THAT(to_fix_script(report, settings), HasSubstr("they do nothing.\n" + settings));
    EXPECT_THAT(to_fix_script(report), Not(HasSubstr("Settings for jobs")));
  }
}

TEST_F(FixScript, FullReport_IsCleanInTheShellAndInShellcheck) {
  write_script_of(full_report());
  EXPECT_EQ(shell("sh -n fix.sh"), 0) << output_;
  EXPECT_THAT(read("fix.sh"), Not(HasSubstr("line\nbreak")));
  if (shell("command -v shellcheck") != 0) GTEST_SKIP() << "shellcheck is not installed";
  EXPECT_EQ(shell("shellcheck fix.sh"), 0) << output_;
}

}  // namespace
}  // namespace gdr::tools::doctor
