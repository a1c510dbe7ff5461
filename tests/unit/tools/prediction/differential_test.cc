// nccl::Prediction against the oracle on random machines. A difference prints its seed;
// nccl_differential shows all of them for one seed.
#include "tests/unit/tools/prediction/oracle/differential.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/prediction/oracle/random_machine.h"

namespace gdr::topology::oracle {
namespace {

constexpr uint64_t kFirstSeed = 1;
constexpr uint64_t kMachines = 250;

class DifferentialTest : public testing::TestWithParam<nccl::Release> {};

TEST_P(DifferentialTest, RandomMachines_Predicted_AsTheOracleSays) {
  uint64_t compared = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kMachines; ++seed) {
    const RandomMachine machine = random_machine(seed);
    // Older releases know no split GPUs.
    if (machine.partitions && GetParam() < nccl::Release{2, 30, 5}) continue;
    nccl::Settings settings = random_settings(seed);
    settings.release = GetParam();
    const Comparison comparison = compare(machine.xml, settings);
    ASSERT_TRUE(comparison.compared) << "seed " << seed << ": " << comparison.left_out;
    ++compared;
    EXPECT_TRUE(comparison.differences.empty())
        << fmt::format("nccl_differential --seed {} --machines 1 --nccl-version {}\n  {}", seed,
                       GetParam().to_string(), fmt::join(comparison.differences, "\n  "));
  }
  fmt::print("NCCL {}: {} machines, seeds {} to {}\n", GetParam().to_string(), compared, kFirstSeed,
             kFirstSeed + kMachines - 1);
  EXPECT_GT(compared, kMachines / 2);
}

INSTANTIATE_TEST_SUITE_P(Releases, DifferentialTest,
                         testing::Values(nccl::Release{2, 22, 3}, nccl::Release{2, 26, 6},
                                         nccl::Release{2, 27, 3}, nccl::Release{2, 27, 7},
                                         nccl::Release{2, 28, 9}, nccl::Release{2, 29, 7},
                                         nccl::Release{2, 30, 4}, nccl::Release{2, 30, 5},
                                         nccl::Release{2, 30, 7}),
                         [](const auto& release) {
                           return fmt::format("Nccl_{}_{}_{}", release.param.major,
                                              release.param.minor, release.param.patch);
                         });

}  // namespace
}  // namespace gdr::topology::oracle
