#include "tools/perf/cpu_affinity.h"

#include <gtest/gtest.h>

#include <thread>

namespace gdr::tools {
namespace {
std::vector<int> choices(const std::vector<CpuAffinity>& ranks) {
  std::vector<int> out;
  for (size_t i = 0; i < ranks.size(); ++i) out.push_back(choose_cpu(ranks, i));
  return out;
}

TEST(ChooseCpu, RanksOnDifferentCpus_KeepThem) {
  EXPECT_EQ(choices({{"a", 3, {0, 1, 2, 3}}, {"a", 1, {0, 1, 2, 3}}}), (std::vector<int>{3, 1}));
}

TEST(ChooseCpu, RanksOnOneCpu_LaterOnesMoveUpwards) {
  EXPECT_EQ(choices({{"a", 2, {0, 1, 2, 3}}, {"a", 2, {0, 1, 2, 3}}, {"a", 2, {0, 1, 2, 3}}}),
            (std::vector<int>{2, 3, 0}));
}

TEST(ChooseCpu, TooFewCpus_PinsNoRank) {
  EXPECT_EQ(choices({{"a", 0, {0, 1}}, {"a", 1, {0, 1}}, {"a", 1, {0, 1}}}),
            (std::vector<int>{-1, -1, -1}));
}

TEST(ChooseCpu, OtherHosts_AreIgnored) {
  EXPECT_EQ(choices({{"a", 0, {0, 1}}, {"b", 0, {0}}, {"a", 0, {0, 1}}}),
            (std::vector<int>{0, 0, 1}));
}

TEST(CpuPin, Scope_BindsAndRestores) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int cpu = sched_getcpu();
  {
    CpuPin pin(cpu);
    cpu_set_t now;
    sched_getaffinity(0, sizeof(now), &now);
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(cpu, &now));
  }
  cpu_set_t after;
  sched_getaffinity(0, sizeof(after), &after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}
}  // namespace
}  // namespace gdr::tools
