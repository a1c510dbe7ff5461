#include "tools/doctor/burn_in_child.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/fakes/temp_folder.h"

namespace gdr::tools::doctor {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

BurnInClock::time_point in(seconds later) { return BurnInClock::now() + later; }

ChildSpec shell(const std::string& script) { return {"/bin/sh", {"-c", script}}; }

TEST(ChildProcess, Program_LeavesItsOutputAndStatus) {
  auto child = ChildProcess::start(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(child.has_value());
  EXPECT_TRUE(child->wait_until(in(seconds(30))));
  EXPECT_EQ(child->exit_status(), 3);
  EXPECT_EQ(child->how_it_ended(), "ended with status 3");
  EXPECT_EQ(child->output(), "out\n");
  EXPECT_EQ(child->errors(), "err\n");
}

TEST(ChildProcess, Environment_IsReplacedAndKept) {
  setenv("BURN_IN_KEPT", "kept", 1);
  setenv("BURN_IN_REPLACED", "old", 1);
  ChildSpec spec = shell("echo $BURN_IN_KEPT $BURN_IN_REPLACED");
  spec.environment = {"BURN_IN_REPLACED=new"};
  auto child = ChildProcess::start(spec);
  EXPECT_TRUE(child->wait_until(in(seconds(30))));
  EXPECT_EQ(child->output(), "kept new\n");
}

TEST(ChildProcess, Arguments_AreNotSplit) {
  auto child = ChildProcess::start({"/bin/sh", {"-c", "echo \"$1\"", "sh", "--ib-dev=a b;*'\"$x"}});
  EXPECT_TRUE(child->wait_until(in(seconds(30))));
  EXPECT_EQ(child->output(), "--ib-dev=a b;*'\"$x\n");
}

TEST(ChildProcess, MissingProgram_CannotBeStarted) {
  const auto child = ChildProcess::start({"/no/such/program", {}});
  ASSERT_FALSE(child.has_value());
  EXPECT_THAT(child.error().text, HasSubstr("cannot run /no/such/program: No such file"));
}

TEST(ChildProcess, ProgramThatHangs_IsEnded) {
  auto child = ChildProcess::start({"/bin/sleep", {"1000"}});
  EXPECT_FALSE(child->wait_until(BurnInClock::now()));
  child->end();
  EXPECT_TRUE(child->has_ended());
  EXPECT_EQ(child->exit_status(), -1);
  EXPECT_THAT(child->how_it_ended(), HasSubstr("was ended by signal 15"));
}

TEST(ChildProcess, ProgramThatIgnoresTerm_IsKilled) {
  auto child = ChildProcess::start(shell("trap '' TERM; echo ready; while :; do sleep 1; done"));
  while (child->output().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  child->end();
  EXPECT_THAT(child->how_it_ended(), HasSubstr("signal 9"));
}

TEST(ChildProcess, ProgramThatPrintsWithoutEnd_IsKilled) {
  auto child = ChildProcess::start({"/usr/bin/yes", {}});
  ASSERT_TRUE(child.has_value());
  EXPECT_TRUE(child->wait_until(in(seconds(100))));
  EXPECT_THAT(child->how_it_ended(), HasSubstr("signal 9"));
  EXPECT_EQ(child->output().size(), size_t{1} << 20);
}

// The state of a process in /proc; 'X' where there is none any more.
char state_of(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string number, name, state;
  return stat >> number >> name >> state ? state[0] : 'X';
}

TEST(ChildProcess, ParentThatIsKilled_TakesTheProgramWithIt) {
  const TempFolder folder;
  const std::string file = (folder.path() / "pid").string();
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    auto child = ChildProcess::start(
        shell("echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000"));
    pause();
    _exit(0);
  }
  std::string pid;
  while (!(std::ifstream(file) >> pid)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_NE(state_of(pid), 'X');
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  const auto deadline = in(seconds(30));
  while (state_of(pid) != 'X' && state_of(pid) != 'Z' && BurnInClock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(std::string(1, state_of(pid)), ::testing::AnyOf("X", "Z"));
}

TEST(ChildProcess, IgnoredSigchld_DoesNotHideTheStatus) {
  signal(SIGCHLD, SIG_IGN);
  auto child = ChildProcess::start(shell("sleep 0; sh -c 'exit 4'; exit $?"));
  ASSERT_TRUE(child.has_value());
  EXPECT_TRUE(child->wait_until(in(seconds(30))));
  EXPECT_EQ(child->exit_status(), 4);
  signal(SIGCHLD, SIG_DFL);
}

TEST(ChildProcess, StatusThatIsLost_IsNotTakenForSuccess) {
  auto child = ChildProcess::start(shell("exit 0"));
  ASSERT_TRUE(child.has_value());
  ASSERT_GT(waitpid(-1, nullptr, 0), 0);  // another part of the process takes it
  EXPECT_TRUE(child->wait_until(in(seconds(30))));
  EXPECT_EQ(child->exit_status(), -1);
  EXPECT_EQ(child->how_it_ended(), "ended with an unknown status");
}

TEST(ProgramInPath, ExecutableFile_IsFoundInOrder) {
  const TempFolder folder;
  for (const char* name : {"a", "b"}) std::filesystem::create_directories(folder.path() / name);
  const std::string path =
      "/no/such/folder:" + (folder.path() / "a").string() + ":" + (folder.path() / "b").string();
  EXPECT_EQ(program_in_path("ib_write_bw", path), "");
  const std::filesystem::path file = folder.path() / "b" / "ib_write_bw";
  std::ofstream(file) << "#!/bin/sh\n";
  EXPECT_EQ(program_in_path("ib_write_bw", path), "");  // not executable
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  EXPECT_EQ(program_in_path("ib_write_bw", path), file.string());
}

}  // namespace
}  // namespace gdr::tools::doctor
