#include "tools/ranks/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tools/ranks/control_frame.h"
#include "tools/ranks/stall_guard.h"

namespace gdr::tools {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using End = RankOutcome::End;

GroupSpec group(int ranks, double patience = 20) {
  GroupSpec spec = local_group(ranks);
  spec.patience_seconds = patience;
  return spec;
}

TEST(RankGroup, RankThatDies_IsReportedAndEndsTheOthers) {
  auto outcomes = run_group(group(4), [](Rank& rank) {
    rank.board().set_state("at work");
    while (rank.rank() == 3 && !rank.has_lost_a_rank()) sched_yield();
    if (rank.rank() == 1) kill(getpid(), SIGKILL);
    if (rank.rank() == 2) pause();
    Status met = rank.barrier("after the death");
    rank.board().set_report(met ? "met" : met.error().text);
    return 1;
  });
  ASSERT_TRUE(outcomes);
  EXPECT_EQ((*outcomes)[1].end, End::kKilled);
  EXPECT_EQ((*outcomes)[2].end, End::kEnded);
  for (int waits : {0, 3}) EXPECT_THAT((*outcomes)[waits].report, HasSubstr("rank 1 has ended"));
  EXPECT_THAT(describe(causes(*outcomes).front()), HasSubstr("rank 1 was killed by signal 9"));
}

// As on a machine that was overloaded or stopped: the other rank did not run either.
TEST(StallGuard, RankDidNotRunForItsPatience_GivesUpOnlyAfterFurtherPolls) {
  auto outcomes = run_group(group(1, 0.1), [](Rank& rank) {
    StallGuard guard(rank, StallGuard::kClockMask + 1);  // a busy machine takes long for a yield
    int pauses = 0;
    for (uint64_t polls = 1; guard.keep_waiting(); ++polls) {
      if ((polls & StallGuard::kClockMask) != 0) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
      ++pauses;
    }
    return pauses;
  });
  ASSERT_TRUE(outcomes);
  EXPECT_GE(outcomes->front().exit_code, 10);
}

TEST(RankGroup, UnauthenticatedPeersOnTheRootsPort_AreDropped) {
  auto outcomes = run_group(group(2), [](Rank& rank) {
    if (rank.rank() == 0) {
      using namespace std::string_view_literals;
      const std::string wrong_hello("\x0c\0\0\0aaaabbbbcccc", 16);
      for (const std::string& noise :
           {std::string(), std::string("x"), std::string("GET / HTTP/1.1"), wrong_hello}) {
        auto fd = connect_until(rank.root(), Clock::now());
        if (!fd) return 2;
        (void)write_all(fd->get(), noise);
      }
    }
    return rank.barrier("after the noise") ? 0 : 1;
  });
  ASSERT_TRUE(outcomes);
  for (const RankOutcome& outcome : *outcomes) EXPECT_TRUE(outcome.well()) << describe(outcome);
}

// The connections of the next run may come while this one is served.
TEST(RankGroup, RunsThatFollowEachOther_ShareTheRootsSocket) {
  GroupSpec spec = group(1);
  spec.nranks = 2;
  ASSERT_TRUE(listen_at_root(spec));
  ASSERT_NE(spec.root.port, 0);
  // The other rank comes later to every second run, which ends at once.
  constexpr int kRuns = 6;
  const pid_t other = fork();
  auto meet_often = [&](Rank& rank) {
    Status met;
    if (spec.run % 2 == 0) return 0;
    for (int i = 0; met && i < 3; ++i) met = rank.barrier("a round");
    return met ? 0 : 1;
  };
  GroupSpec mine = spec;
  if (other == 0) {
    mine.local = {1};
    mine.listener.reset();
  }
  bool well = true;
  for (int run = 1; run <= kRuns; ++run) {
    mine.run = spec.run = static_cast<uint32_t>(run);
    if (other == 0 && run % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    auto outcomes = run_group(mine, meet_often);
    well = well && outcomes && outcomes->front().well();
  }
  if (other == 0) _exit(well ? 0 : 1);
  int status = -1;
  waitpid(other, &status, 0);
  EXPECT_TRUE(well);
  EXPECT_EQ(status, 0);
}

TEST(GatheredFrame, RoundTrip_KeepsEveryPartAndAnythingElseIsRejected) {
  std::vector<std::string> parts;
  EXPECT_TRUE(parse_gathered(make_gathered({"a", "", std::string("\0\xff", 2)}), 3, &parts));
  EXPECT_THAT(parts, ElementsAre("a", "", std::string("\0\xff", 2)));
  const std::string whole = make_gathered({"abc", "de"});
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_gathered(whole.substr(0, length), 2, &parts)) << length;
  }
  EXPECT_FALSE(parse_gathered(whole + "x", 2, &parts));
  EXPECT_FALSE(parse_gathered(whole, 1, &parts));
  EXPECT_FALSE(parse_gathered(whole, 3, &parts));
  EXPECT_FALSE(parse_gathered("g\x91\x05", 1, &parts)) << "not a text";
}

TEST(HostPort, TextWithAndWithoutPort_IsParsedOrRejected) {
  auto good = parse_host_port("10.0.0.1:5000");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->host, "10.0.0.1");
  EXPECT_EQ(good->port, 5000);
  for (const char* bad : {"", ":1", "host", "host:", "host:70000", "host:12x"}) {
    EXPECT_FALSE(parse_host_port(bad)) << bad;
  }
}
}  // namespace
}  // namespace gdr::tools
