#include "plugin/stats_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <set>

#include "tests/fakes/temp_folder.h"

namespace gdr::plugin {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct StatsFileTest : testing::Test {
  TempFolder folder;

  // What a collector reads: names that end in .prom.
  std::set<std::string> collected() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".prom")) names.insert(name);
    }
    return names;
  }
  bool has_temporary() const {
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      if (entry.path().extension() == ".tmp") return true;
    }
    return false;
  }
  std::string text_of(const std::string& name) const { return read_whole(folder.path() / name); }
  static Status write(StatsFile& file, const std::string& text = "text\n") {
    return file.write([&](int number) { return std::to_string(number) + " " + text; });
  }
};

// The old file stays as it is for whoever has it open.
TEST_F(StatsFileTest, Write_ReplacesTheFileAndLeavesNoOther) {
  StatsFile file(folder.path());
  ASSERT_TRUE(write(file, "a longer text\n"));
  std::ifstream reader(folder.path() / "nccl_gdr_0.prom");
  ASSERT_TRUE(write(file, "short\n"));
  EXPECT_THAT(collected(), ElementsAre("nccl_gdr_0.prom"));
  EXPECT_EQ(text_of("nccl_gdr_0.prom"), "0 short\n");
  EXPECT_EQ(file.path(), folder.path() / "nccl_gdr_0.prom");
  EXPECT_FALSE(has_temporary());
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "0 a longer text");
}

TEST_F(StatsFileTest, ProcessesHaveEnded_NextOneTakesANumberAndRemovesTheOtherFiles) {
  StatsFile living(folder.path());
  {
    StatsFile ended(folder.path()), also_ended(folder.path());
    ASSERT_TRUE(write(ended, "old\n") && write(living) && write(also_ended));
    ASSERT_TRUE(write(ended, "old\n")) << "it keeps its number";
    EXPECT_EQ(text_of("nccl_gdr_2.prom"), "2 text\n");
  }
  EXPECT_THAT(collected(), ElementsAre("nccl_gdr_0.prom", "nccl_gdr_1.prom", "nccl_gdr_2.prom"))
      << "the last counters can still be collected";
  StatsFile next(folder.path());
  ASSERT_TRUE(write(next, "new\n"));
  EXPECT_THAT(collected(), ElementsAre("nccl_gdr_0.prom", "nccl_gdr_1.prom"));
  EXPECT_EQ(text_of("nccl_gdr_0.prom"), "0 new\n");
}

TEST_F(StatsFileTest, FilesOfOthers_AreLeftAlone) {
  for (const char* name : {"node.prom", "nccl_gdr_x.prom", "nccl_gdr_.prom", "nccl_gdr_7.prom"}) {
    std::ofstream(folder.path() / name) << "theirs\n";
  }
  StatsFile file(folder.path());
  ASSERT_TRUE(write(file));
  EXPECT_EQ(collected().size(), 5u) << "the 7 has no lock file";
}

// Root may write everywhere, so that another user tries.
TEST_F(StatsFileTest, FolderOfAnotherUser_ErrorNamesTheFix) {
  const bool is_root = geteuid() == 0;
  constexpr uid_t kNobody = 65534;
  chmod(folder.path().c_str(), 0555);
  const int user_changed = is_root ? seteuid(kNobody) : 0;
  StatsFile file(folder.path());
  const Status status = write(file);
  const int user_back = is_root ? seteuid(0) : 0;
  chmod(folder.path().c_str(), 0755);
  ASSERT_EQ(user_changed + user_back, 0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().sys_errno, EACCES);
  EXPECT_THAT(status.error().text, HasSubstr("that the job's user may write to (mkdir -p "));
}

TEST_F(StatsFileTest, AnotherUsersFileInAFolderForAll_TakesTheNextNumber) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can write as two users";
  {
    StatsFile ended(folder.path());
    ASSERT_TRUE(write(ended, "of root\n"));
  }
  chmod(folder.path().c_str(), 01777);
  ASSERT_EQ(seteuid(65534), 0);
  StatsFile file(folder.path());
  const Status status = write(file);
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_TRUE(status) << status.error().text;
  EXPECT_EQ(text_of("nccl_gdr_1.prom"), "1 text\n");
  EXPECT_EQ(text_of("nccl_gdr_0.prom"), "0 of root\n");
}

// A limit of file sizes fails as a full disk does: the first bytes may be written, then no more.
TEST_F(StatsFileTest, DiskIsFull_OldTextStaysAndNothingElse) {
  StatsFile file(folder.path());
  ASSERT_TRUE(write(file, "old\n"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limited{64, before.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limited);
  const Status status = write(file, std::string(1000, 'n') + "\n");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().sys_errno, EFBIG);
  EXPECT_EQ(text_of("nccl_gdr_0.prom"), "0 old\n");
  EXPECT_FALSE(has_temporary());
}

TEST_F(StatsFileTest, StrictUmask_CollectorCanReadIt) {
  const mode_t before = umask(0077);
  StatsFile file(folder.path());
  const Status status = write(file);
  umask(before);
  ASSERT_TRUE(status);
  struct stat written {};
  ASSERT_EQ(stat((folder.path() / "nccl_gdr_0.prom").c_str(), &written), 0);
  EXPECT_EQ(written.st_mode & 0777, 0644u);
  ASSERT_EQ(stat((folder.path() / ".nccl_gdr_0.lock").c_str(), &written), 0);
  EXPECT_EQ(written.st_mode & 0777, 0644u);
}

TEST_F(StatsFileTest, LinksAndPipesInItsPlace_AreNotFollowedAndDoNotBlock) {
  std::ofstream(folder.path() / "precious") << "precious\n";
  ASSERT_EQ(mkfifo((folder.path() / ".nccl_gdr_0.lock").c_str(), 0644), 0);
  ASSERT_EQ(symlink("precious", (folder.path() / ".nccl_gdr_1.lock").c_str()), 0);
  ASSERT_EQ(symlink("precious", (folder.path() / ".nccl_gdr_2.tmp").c_str()), 0);
  ASSERT_EQ(symlink("precious", (folder.path() / "nccl_gdr_0.prom").c_str()), 0);
  StatsFile first(folder.path()), second(folder.path());
  ASSERT_TRUE(write(first) && write(second));
  EXPECT_EQ(text_of("precious"), "precious\n");
}

// The kernel would hold the lock for as long as the child lives.
TEST_F(StatsFileTest, ForkedChildOutlivesTheProcess_DoesNotHoldItsNumber) {
  auto file = std::make_optional<StatsFile>(folder.path());
  ASSERT_TRUE(write(*file));
  int runs[2];
  ASSERT_EQ(pipe(runs), 0);
  const pid_t child = fork();
  if (child == 0) {
    (void)!::write(runs[1], "c", 1);  // what it does not keep is closed by now
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(runs[0], &byte, 1), 1);
  close(runs[0]);
  close(runs[1]);
  file.reset();
  StatsFile next(folder.path());
  EXPECT_TRUE(write(next));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(next.path(), folder.path() / "nccl_gdr_0.prom");
}

}  // namespace
}  // namespace gdr::plugin
