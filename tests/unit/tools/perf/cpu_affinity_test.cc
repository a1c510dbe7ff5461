#include "tools/perf/cpu_affinity.h"

#include <gmock/gmock.h>

namespace gdr::tools {
namespace {
using testing::ElementsAre;

std::vector<int> choices(const std::vector<CpuAffinity>& ranks) {
  std::vector<int> out;
  for (size_t i = 0; i < ranks.size(); ++i) out.push_back(choose_cpu(ranks, i));
  return out;
}

TEST(ChooseCpu, EachRankOfAHost_GetsACpuOfItsOwnOrNoneDoes) {
  const std::vector<int> four{0, 1, 2, 3};
  EXPECT_THAT(choices({{"a", 3, four}, {"a", 1, four}}), ElementsAre(3, 1));
  EXPECT_THAT(choices({{"a", 2, four}, {"a", 2, four}, {"a", 2, four}}), ElementsAre(2, 3, 0))
      << "later ones move upwards";
  EXPECT_THAT(choices({{"a", 0, {0, 1}}, {"a", 1, {0, 1}}, {"a", 1, {0, 1}}}),
              ElementsAre(-1, -1, -1));
  EXPECT_THAT(choices({{"a", 0, {0, 1}}, {"b", 0, {0}}, {"a", 0, {0, 1}}}), ElementsAre(0, 0, 1));
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
