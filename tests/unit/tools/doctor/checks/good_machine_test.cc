#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checked_machine.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// What is observed where the machine has changed since its fingerprint.
Observations seen_after(const std::function<void(Machine*)>& change, const Facts& settings = {}) {
  MadeHost made;
  Machine machine = good_machine();
  made.host.inspection = topo::Inspection{.decision = topology::scene_of(machine)};
  made.host.pci_states = good_states(machine);
  made.host.good = profile_of(made.host);
  made.host.good->host = "good.json";
  change(&machine);
  made.host.inspection = topo::Inspection{.decision = topology::scene_of(machine)};
  made.host.environment = {settings.begin(), settings.end()};
  return run_good_machine(made.host);
}

TEST(GoodMachine, Less_IsAFailure) {
  const std::pair<std::function<void(Machine*)>, const char*> cases[] = {
      {[](Machine* m) { m->gpus.erase(m->gpus.begin() + 2); }, "missing: good.json has it"},
      {[](Machine* m) { m->nccl_file = true; }, "missing: good.json has it"},  // GPUs of no /sys
      {[](Machine* m) { m->gpus[2].nvlinks.clear(); }, "NVLinks: none, expected 18 to"},
      {[](Machine* m) { m->hcas[4].ports.pop_back(); }, "ports: 1, expected 1, 2"},
      {[](Machine* m) { m->hcas[1].ports[0].speed_mbps = 100000; }, "100 Gb/s, expected 400 Gb/s"},
      {[](Machine* m) {
         m->hcas[1].link = {16, 32};
       },
       "PCIe link: 16 GT/s x32, expected 32 GT/s"}};
  for (const auto& [change, text] : cases) {
    const Observations seen = seen_after(change);
    EXPECT_EQ(seen[0].verdict, Verdict::kFailure) << text;
    EXPECT_THAT(seen[0].evidence, HasSubstr(text));
  }
}

TEST(GoodMachine, MoreAndOtherSettings_AreWarnings) {
  const std::function<void(Machine*)> changes[] = {
      [](Machine* m) {
        m->hcas.push_back(topology::make_hca("mlx5_9", topology::bdf_of(0xf0), {-1, 0, 0}));
      },
      [](Machine* m) { m->hcas[1].ports[0].speed_mbps = 800000; },
      [](Machine* m) { m->gpus[2].link.gt_per_s = 64; }};
  for (const auto& change : changes) EXPECT_EQ(seen_after(change)[0].verdict, Verdict::kWarning);
  const Observations seen = seen_after([](Machine*) {}, {{"NCCL_IB_TC", "106"}});
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].evidence, "NCCL_IB_TC: 106, expected unset");
}

TEST(GoodMachine, SmallerBar1_IsAFailure) {
  MadeHost made;
  const Machine machine = good_machine();
  made.host.inspection = topo::Inspection{.decision = topology::scene_of(machine)};
  made.host.pci_states = good_states(machine);
  made.host.good = profile_of(made.host);
  made.host.pci_states[machine.gpus[3].bdf].largest_bar = uint64_t{1} << 28;
  const Observations seen = run_good_machine(made.host);
  EXPECT_EQ(seen.at(0).verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject + ": " + seen[0].evidence, "GPU3: BAR1: 256 MiB, expected 131072 MiB");
}

TEST(GoodMachine, SameMachine_IsOkAndWithoutAFileNothing) {
  EXPECT_EQ(seen_after([](Machine*) {})[0].verdict, Verdict::kOk);
  EXPECT_EQ(run_good_machine(MadeHost().host)[0].verdict, Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
