// The script is run by sh, in a folder of the test.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fakes/temp_folder.h"
#include "tests/unit/tools/doctor/made_report.h"

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

  std::string read(const std::string& name) const {
    std::ifstream stream(folder_.path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  // A step that sets a file's content, which was "old" before.
  static FixStep sets(const std::string& file) {
    return {"Sets " + file + ".", "echo new > " + file, "echo old > " + file};
  }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  TempFolder folder_;
  std::string output_;
  std::string any_machine_ = "1";
};

TEST_F(FixScript, ApplyThenUndo_RestoresWhatWasSeen) {
  write_script({sets("a"), sets("b")});
  EXPECT_EQ(shell("sh fix.sh apply"), 0) << output_;
  EXPECT_EQ(read("a") + read("b"), "new\nnew\n");
  EXPECT_EQ(shell("sh fix.sh show"), 0);
  EXPECT_EQ(output_, "step 1: applied\nstep 2: applied\n");
  EXPECT_EQ(shell("sh fix.sh undo"), 0) << output_;
  EXPECT_EQ(read("a") + read("b"), "old\nold\n");
  EXPECT_EQ(files(), 4u);  // a, b, the script and its output: the list of steps is gone
}

TEST_F(FixScript, Undo_GoesBackwardThroughTheSteps) {
  write_script({{"First.", "echo +1 >> log", "echo -1 >> log"},
                {"Second.", "echo +2 >> log", "echo -2 >> log"}});
  EXPECT_EQ(shell("sh fix.sh apply && sh fix.sh undo"), 0);
  EXPECT_EQ(read("log"), "+1\n+2\n-2\n-1\n");
}

TEST_F(FixScript, UndoWithoutApply_ChangesNothing) {
  write_script({sets("a")});
  EXPECT_EQ(shell("sh fix.sh undo"), 0) << output_;
  EXPECT_FALSE(fs::exists(folder_.path() / "a"));
}

TEST_F(FixScript, StepThatFails_IsNamedAndTheOthersGoOn) {
  write_script(
      {sets("a"), {"Fails.", "false\necho after > after", "echo bad > undone"}, sets("c")});
  EXPECT_EQ(shell("sh fix.sh apply"), 1);
  EXPECT_THAT(output_, HasSubstr("step 2 FAILED with status 1\n"));
  EXPECT_THAT(output_, HasSubstr("step 3 is applied\nfailed: 2\n"));
  EXPECT_FALSE(fs::exists(folder_.path() / "after"));
  EXPECT_EQ(shell("sh fix.sh undo"), 0) << output_;
  EXPECT_EQ(read("a") + read("c"), "old\nold\n");
  EXPECT_FALSE(fs::exists(folder_.path() / "undone"));
}

TEST_F(FixScript, StepAfterAFailedOneOfTheSameObservation_IsLeftOut) {
  write_script_of(
      report_of({result_of("two", Cost::kStops,
                           {failure("", "bad", "fix", {{"Fails.", "exit 7", ""}, sets("a")}),
                            failure("", "other", "fix", {sets("b")})})}));
  EXPECT_EQ(shell("sh fix.sh apply"), 1);
  EXPECT_THAT(output_, HasSubstr("step 1 FAILED with status 7\nstep 2 is left out"));
  EXPECT_FALSE(fs::exists(folder_.path() / "a"));
  EXPECT_EQ(read("b"), "new\n");
}

TEST_F(FixScript, UndoThatFails_IsKeptForAnotherTry) {
  write_script({sets("a"), {"Needs a file.", ":", "cat needed"}});
  EXPECT_EQ(shell("sh fix.sh apply"), 0) << output_;
  EXPECT_EQ(shell("sh fix.sh undo"), 1);
  EXPECT_THAT(output_, HasSubstr("the undo of step 2 FAILED"));
  EXPECT_EQ(read("a"), "old\n");
  EXPECT_EQ(shell("sh fix.sh show"), 0);
  EXPECT_EQ(output_, "step 1: not applied\nstep 2: applied\n");
  EXPECT_EQ(shell("touch needed; sh fix.sh undo"), 0) << output_;
}

TEST_F(FixScript, ApplyTwice_AppliesOnce) {
  write_script({{"Appends.", "echo line >> a", "rm a"}});
  EXPECT_EQ(shell("sh fix.sh apply; sh fix.sh apply"), 0);
  EXPECT_THAT(output_, HasSubstr("step 1 was applied before"));
  EXPECT_EQ(read("a"), "line\n");
}

TEST_F(FixScript, ApplyAfterAReboot_AppliesAgainAndUndoStillWorks) {
  write_script({sets("a"), sets("b")});
  EXPECT_EQ(shell("sh fix.sh apply && sed -i 's/ .*/ another-boot/' fix.sh.*.applied"), 0);
  EXPECT_EQ(shell("sh fix.sh show"), 0);
  EXPECT_THAT(output_, HasSubstr("step 1: applied before the last boot"));
  EXPECT_EQ(shell("echo default > a; sh fix.sh apply 1"), 0) << output_;
  EXPECT_EQ(output_, "step 1 is applied\n");
  EXPECT_EQ(read("a"), "new\n");
  EXPECT_EQ(shell("sh fix.sh undo"), 0) << output_;
  EXPECT_EQ(read("a") + read("b"), "old\nold\n");
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

TEST_F(FixScript, NumbersOfSteps_ChooseThem) {
  write_script({sets("a"), sets("b"), sets("c")});
  EXPECT_EQ(shell("sh fix.sh apply 3 1"), 0) << output_;
  EXPECT_EQ(read("a") + read("c"), "new\nnew\n");
  EXPECT_FALSE(fs::exists(folder_.path() / "b"));
  EXPECT_EQ(shell("sh fix.sh undo 1"), 0) << output_;
  EXPECT_EQ(read("a") + read("c"), "old\nnew\n");
}

TEST_F(FixScript, WrongArguments_AreUsageErrorsAndRunNothing) {
  write_script({sets("a")});
  for (const char* arguments : {"", "wrong", "apply 2", "apply all", "undo '*'"}) {
    EXPECT_EQ(shell(std::string("sh fix.sh ") + arguments), 2) << arguments;
  }
  EXPECT_EQ(shell("cat fix.sh | sh -s apply"), 2);
  EXPECT_FALSE(fs::exists(folder_.path() / "a"));
}

TEST_F(FixScript, ScriptWithOtherSteps_UndoesNothingOfThisOne) {
  write_script({sets("a")});
  EXPECT_EQ(shell("sh fix.sh apply"), 0);
  write_script({sets("b")});
  EXPECT_EQ(shell("sh fix.sh undo"), 0);
  EXPECT_EQ(read("a"), "new\n");
  EXPECT_FALSE(fs::exists(folder_.path() / "b"));
}

TEST_F(FixScript, StepWithoutUndo_SaysSo) {
  write_script({{"Needs no undo.", "echo x > a", ""}});
  EXPECT_EQ(shell("sh fix.sh apply && sh fix.sh undo"), 0);
  EXPECT_THAT(output_, HasSubstr("step 1 has no undo"));
}

TEST_F(FixScript, TextsOfTheMachine_DoNotBecomeCommands) {
  const std::string bad = "a\ntouch bad1\r\ntouch bad2; $(touch bad3) `touch bad4`";
  Report report = report_of(
      {result_of("x", Cost::kStops,
                 {failure(bad, bad, bad, {{bad, ": \"$1\" >> a", ""}}), failure(bad, bad, bad)})});
  report.host = bad;
  write_script_of(report);
  EXPECT_EQ(shell("sh fix.sh apply && sh fix.sh undo"), 0) << output_;
  for (const char* name : {"bad1", "bad2", "bad3", "bad4"}) {
    EXPECT_FALSE(fs::exists(folder_.path() / name)) << name;
  }
}

TEST_F(FixScript, WithoutSteps_SaysSoAndListsWhatAPersonHasToDo) {
  write_script_of(report_of({result_of("bios", Cost::kStops, {failure("", "bad", "set it")})}));
  EXPECT_EQ(shell("sh fix.sh apply"), 0);
  EXPECT_EQ(output_, "there is no step to apply\n");
  EXPECT_THAT(read("fix.sh"), HasSubstr("# bios: bad\n#   Fix: set it\n"));
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
