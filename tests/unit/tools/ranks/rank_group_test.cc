#include "tools/ranks/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gdr::tools {
namespace {
using testing::HasSubstr;
using End = RankOutcome::End;

GroupSpec group(int ranks, double patience = 20) {
  GroupSpec spec;
  spec.nranks = ranks;
  for (int i = 0; i < ranks; ++i) spec.local.push_back(i);
  spec.patience_seconds = patience;
  return spec;
}

TEST(RankGroup, Allgather_GivesAllBytesInRankOrder) {
  auto outcomes = run_group(group(4), [](Rank& rank) {
    for (int round = 0; round < 50; ++round) {
      std::string mine = std::to_string(rank.rank() * 1000 + round);
      auto all = rank.allgather("test", mine);
      for (int i = 0; i < 4; ++i) {
        if (!all || (*all)[i] != std::to_string(i * 1000 + round)) return 1;
      }
    }
    return 0;
  });
  ASSERT_TRUE(outcomes);
  for (const RankOutcome& outcome : *outcomes) EXPECT_TRUE(outcome.well()) << describe(outcome);
}

TEST(RankGroup, RankThatDies_IsReportedAndEndsTheOthers) {
  auto outcomes = run_group(group(3), [](Rank& rank) {
    rank.board().set_state("at work");
    if (rank.rank() == 1) kill(getpid(), SIGKILL);
    if (rank.rank() == 2) pause();
    Status met = rank.barrier("after the death");
    rank.board().set_report(met ? "met" : met.error().text);
    return 1;
  });
  ASSERT_TRUE(outcomes);
  EXPECT_EQ((*outcomes)[1].end, End::kKilled);
  EXPECT_EQ((*outcomes)[2].end, End::kEnded);
  EXPECT_THAT((*outcomes)[0].report, HasSubstr("rank 1 has ended"));
  EXPECT_THAT(describe(causes(*outcomes).front()), HasSubstr("rank 1 was killed by signal 9"));
}

TEST(RankGroup, RankThatHangs_IsKilledWithItsState) {
  auto outcomes = run_group(group(1, 0.2), [](Rank& rank) {
    rank.board().set_state("inside a call");
    for (;;) pause();
    return 0;
  });
  ASSERT_TRUE(outcomes);
  EXPECT_EQ(outcomes->front().end, End::kHung);
  EXPECT_EQ(describe(outcomes->front()), "rank 0 hung while inside a call");
}

TEST(RankGroup, SecondReport_DoesNotReplaceTheFirst) {
  auto outcomes = run_group(group(1), [](Rank& rank) {
    rank.board().set_report("cause");
    rank.board().set_report("consequence");
    return 1;
  });
  EXPECT_EQ(outcomes->front().report, "cause");
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
