// Shares of rails among GPUs, and what is missing.
#include <gmock/gmock.h>

#include <initializer_list>

#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using topology::scene_of;

TEST(Check, HcaThatIsMissingOnOneSwitch_LeavesItsGpusFarAway) {
  Machine machine = good_machine();
  machine.hcas.erase(machine.hcas.begin() + 3);
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report),
              Contains(HasSubstr("rail-share: GPU6, GPU7: no HCA is below the same PCIe "
                                 "switch, where GPU0, GPU1, GPU2 and 3 more have one")));
  EXPECT_THAT(report.notes, Contains(HasSubstr(
                                "GPU4, GPU5, GPU6, GPU7: 1/4 of a rail for each, where GPU0, GPU1, "
                                "GPU2, GPU3 have 1/2 of a rail, since 3 rails for 8 GPUs")));
}

// One more HCA on each switch of `switches`.
Machine with_more_hcas(std::initializer_list<int> switches) {
  Machine machine = good_machine();
  for (int one : switches) {
    Hca more = machine.hcas[static_cast<size_t>(one)];
    more.name = "mlx5_1" + std::to_string(one);
    more.bdf->device = 1;
    machine.hcas.push_back(std::move(more));
  }
  return machine;
}

// Six HCAs for eight GPUs. On the CPU itself they may be where they are by design.
TEST(Check, SharesOfNumbersThatDoNotComeOutEven_AreANoteWhereHcasAreOnTheCpu) {
  Machine machine = with_more_hcas({0, 2});
  for (Hca& hca : machine.hcas) hca.at.parent = -1;
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), Not(Contains(HasSubstr("rail-share"))));
  EXPECT_THAT(report.notes, Contains(HasSubstr("since 6 rails for 8 GPUs do not come out even")));
}

TEST(Check, FewerHcasBelowALikeSwitch_AreAFault) {
  EXPECT_THAT(faults_of(report_on(with_more_hcas({0, 2}))),
              ElementsAre(HasSubstr("rail-share: GPU2, GPU3, GPU6, GPU7: 1/2 of a rail for each, "
                                    "where GPU0, GPU1, GPU4, GPU5 have 1 rail")));
  Machine other = with_more_hcas({0, 2});
  other.switches[1].ids.device = other.switches[3].ids.device = 0x1234;
  EXPECT_THAT(faults_of(report_on(other)), IsEmpty());
}

// Two switches, each with three GPUs and two HCAs, as where each has lost one of four GPUs.
TEST(Check, OddGpusBelowEachSwitch_AreAFault) {
  Machine machine = with_more_hcas({0, 2});
  for (size_t i = 0; i < machine.gpus.size(); ++i) machine.gpus[i].at = machine.gpus[i / 4 * 4].at;
  for (Hca& hca : machine.hcas) {
    if (hca.at.parent == machine.gpus[2].at.parent) continue;
    if (hca.at.numa == machine.gpus[0].at.numa) hca.at = machine.gpus[0].at;
    if (hca.at.numa == machine.gpus[4].at.numa) hca.at = machine.gpus[4].at;
  }
  machine.hcas = {machine.hcas[0], machine.hcas[1], machine.hcas[2], machine.hcas[3]};
  EXPECT_THAT(faults_of(report_on(machine)), Not(Contains(HasSubstr("rail-share"))));
  machine.gpus.erase(machine.gpus.begin() + 7);
  machine.gpus.erase(machine.gpus.begin() + 3);
  EXPECT_THAT(faults_of(report_on(machine)), Contains(HasSubstr("rail-share: ")));
}

TEST(Check, HcaThatIsMissingBesideAnother_ShowsInTheShares) {
  EXPECT_THAT(faults_of(report_on(with_more_hcas({0, 1, 2, 3}))), IsEmpty());
  EXPECT_THAT(faults_of(report_on(with_more_hcas({0, 1, 2}))),
              ElementsAre(HasSubstr("rail-share: GPU6, GPU7: 1/2 of a rail for each, where ")));
}

TEST(Check, SharesThatCouldBeEven_AreAFault) {
  Machine machine = with_more_hcas({0});
  machine.hcas.erase(machine.hcas.begin() + 3);  // 4 rails: 2, 1, 1 and 0 on the switches
  EXPECT_THAT(faults_of(report_on(machine)), Contains(HasSubstr("rail-share: GPU2, GPU3")));
}

TEST(Check, GpuThatIsMissing_ShowsInTheShares) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus.pop_back(); }),
              Contains(HasSubstr("1/2 of a rail for each, where GPU6 has 1 rail")));
}

// One HCA for two switches, each with GPUs.
TEST(Check, FewerHcasThanSwitches_LeaveGpusFarAwayByDesign) {
  Machine machine = good_machine();
  machine.gpus.erase(machine.gpus.begin() + 4, machine.gpus.end());
  machine.hcas = {machine.hcas[0]};
  for (Gpu& gpu : machine.gpus) gpu.nvlinks.clear();
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), ElementsAre(HasSubstr("gdr-reach: GPU2, GPU3: ")));
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("GPU2, GPU3: no HCA is below the same PCIe switch")));
}

// Two switches with GPUs on two sockets, and both HCAs on one of them.
TEST(Check, HcasOnOneSocketOnly_AreTheDesign) {
  Machine machine = good_machine();
  machine.gpus = {machine.gpus[0], machine.gpus[1], machine.gpus[4], machine.gpus[5]};
  machine.hcas.resize(2);
  machine.hcas[1].at = machine.hcas[0].at;
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), Not(Contains(HasSubstr("rail-share"))));
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("GPU2, GPU3: no HCA is below the same PCIe switch")));
}

// Each GPU has an HCA of its own below its switch.
Machine one_to_one_machine() {
  Machine machine = good_machine();
  machine.gpus = {machine.gpus[0], machine.gpus[2], machine.gpus[4], machine.gpus[6]};
  return machine;
}

TEST(Check, HcaWhoseGpuIsMissing_IsNamed) {
  EXPECT_THAT(faults_of(report_on(one_to_one_machine())), IsEmpty());
  for (size_t gpu = 0; gpu < 4; ++gpu) {
    Machine machine = one_to_one_machine();
    machine.gpus.erase(machine.gpus.begin() + static_cast<ptrdiff_t>(gpu));
    EXPECT_THAT(faults_of(report_on(machine)),
                ElementsAre(HasSubstr("rail-share: mlx5_" + std::to_string(gpu) +
                                      ":1: like the rails, and near no GPU, where each of the 3 "
                                      "GPUs has a rail of its own: a GPU may be missing")));
    machine.hcas[gpu].ids.device = 0x101b;  // as that of a storage network
    EXPECT_THAT(faults_of(report_on(machine)), IsEmpty());
  }
}

// A switch that is lost with its GPU and its HCA leaves nothing uneven.
TEST(Check, NumberOfGpusThatIsNoPowerOfTwo_IsANote) {
  Machine machine = one_to_one_machine();
  machine.gpus.pop_back();
  machine.hcas.erase(machine.hcas.begin() + 3);
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains(HasSubstr("3 GPUs are an unusual number: ")));
  EXPECT_THAT(report_on(one_to_one_machine()).notes, Not(Contains(HasSubstr("unusual"))));
}

TEST(Check, RailThatIsDown_HidesNoHcaThatIsMissing) {
  Machine machine = with_more_hcas({0, 1, 2});
  machine.hcas[0].ports[0].state = Port::State::kDown;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("port-down: "),
                          HasSubstr("rail-share: GPU6, GPU7: 1/2 of a rail for each, where ")));
  const Inspection by_map{.decision = scene_of(machine),
                          .settings = {{"GDR_NCCL_RAIL_MAP", UserSetting{}}}};
  EXPECT_THAT(faults_of(check_machine(by_map, {})), ElementsAre(HasSubstr("port-down: ")));
  machine = with_more_hcas({0, 1, 2, 3});
  machine.hcas[0].ports[0].state = Port::State::kDown;
  EXPECT_THAT(faults_of(report_on(machine)), ElementsAre(HasSubstr("port-down: ")));
}

TEST(Check, PortsLeftOutByTheUser_AreTheFaultInPlaceOfWhatFollows) {
  Machine machine = good_machine();
  machine.hcas.resize(3);
  const Inspection inspection{.decision = scene_of(machine),
                              .unrestricted = scene_of(good_machine()),
                              .restricted_by = "NCCL_IB_HCA=^mlx5_3"};
  const std::vector<std::string> faults = faults_of(check_machine(inspection, {}));
  EXPECT_THAT(faults, Contains(HasSubstr("restriction: GPU4, GPU5, GPU6, GPU7: NCCL_IB_HCA=^mlx5_3 "
                                         "leaves out mlx5_3:1, so that rails are farther")));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("rail-share"))));
}

}  // namespace
}  // namespace gdr::tools::topo
