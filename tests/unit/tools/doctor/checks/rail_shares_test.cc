#include "tests/unit/tools/doctor/checked_machine.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using topology::scene_of;

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
TEST(CheckShares, SharesOfNumbersThatDoNotComeOutEven_AreFineWhereHcasAreOnTheCpu) {
  Machine machine = with_more_hcas({0, 2});
  for (Hca& hca : machine.hcas) hca.at.parent = -1;
  EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("rail-share"))));
}

TEST(CheckShares, FewerHcasBelowALikeSwitch_AreAFault) {
  EXPECT_THAT(found_on(with_more_hcas({0, 2})),
              ElementsAre(HasSubstr("rail-share: GPU2, GPU3, GPU6, GPU7: 1/2 of a rail for each, "
                                    "where GPU0, GPU1, GPU4, GPU5 have 1 rail")));
  Machine other = with_more_hcas({0, 2});
  other.switches[1].ids.device = other.switches[3].ids.device = 0x1234;
  EXPECT_THAT(found_on(other), IsEmpty());
}

// Two switches, each with three GPUs and two HCAs, as where each has lost one of four GPUs.
TEST(CheckShares, OddGpusBelowEachSwitch_AreAFault) {
  Machine machine = with_more_hcas({0, 2});
  for (size_t i = 0; i < machine.gpus.size(); ++i) machine.gpus[i].at = machine.gpus[i / 4 * 4].at;
  for (Hca& hca : machine.hcas) {
    if (hca.at.parent == machine.gpus[2].at.parent) continue;
    if (hca.at.numa == machine.gpus[0].at.numa) hca.at = machine.gpus[0].at;
    if (hca.at.numa == machine.gpus[4].at.numa) hca.at = machine.gpus[4].at;
  }
  machine.hcas = {machine.hcas[0], machine.hcas[1], machine.hcas[2], machine.hcas[3]};
  EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("rail-share"))));
  machine.gpus.erase(machine.gpus.begin() + 7);
  machine.gpus.erase(machine.gpus.begin() + 3);
  EXPECT_THAT(found_on(machine), Contains(HasSubstr("rail-share: ")));
}

TEST(CheckShares, HcaThatIsMissingBesideAnother_ShowsInTheShares) {
  EXPECT_THAT(found_on(with_more_hcas({0, 1, 2, 3})), IsEmpty());
  EXPECT_THAT(found_on(with_more_hcas({0, 1, 2})),
              ElementsAre(HasSubstr("rail-share: GPU6, GPU7: 1/2 of a rail for each, where ")));
}

TEST(CheckShares, SharesThatCouldBeEven_AreAFault) {
  Machine machine = with_more_hcas({0});
  machine.hcas.erase(machine.hcas.begin() + 3);  // 4 rails: 2, 1, 1 and 0 on the switches
  EXPECT_THAT(found_on(machine), Contains(HasSubstr("rail-share: GPU2, GPU3")));
}

TEST(CheckShares, GpuThatIsMissing_ShowsInTheShares) {
  Machine machine = good_machine();
  machine.gpus.pop_back();
  EXPECT_THAT(found_on(machine),
              Contains(HasSubstr("rail-share: GPU6: 1 rail for each, where GPU0, GPU1, GPU2 and 3 "
                                 "more have 1/2 of a rail")));
  machine.gpus.erase(machine.gpus.begin() + 2);  // six GPUs, two of them alone on their switch
  EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("rail-share: GPU0"))));
}

// One HCA for two switches, each with GPUs.
TEST(CheckShares, FewerHcasThanSwitches_LeaveGpusFarAwayByDesign) {
  Machine machine = good_machine();
  machine.gpus.erase(machine.gpus.begin() + 4, machine.gpus.end());
  machine.hcas = {machine.hcas[0]};
  for (Gpu& gpu : machine.gpus) gpu.nvlinks.clear();
  EXPECT_THAT(found_on(machine), ElementsAre(HasSubstr("gdr-reach: GPU2, GPU3: ")));
}

// Two switches with GPUs on two sockets, and both HCAs on one of them.
TEST(CheckShares, HcasOnOneSocketOnly_AreTheDesign) {
  Machine machine = good_machine();
  machine.gpus = {machine.gpus[0], machine.gpus[1], machine.gpus[4], machine.gpus[5]};
  machine.hcas.resize(2);
  machine.hcas[1].at = machine.hcas[0].at;
  EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("rail-share"))));
}

// Each GPU has an HCA of its own below its switch.
Machine one_to_one_machine() {
  Machine machine = good_machine();
  machine.gpus = {machine.gpus[0], machine.gpus[2], machine.gpus[4], machine.gpus[6]};
  return machine;
}

TEST(CheckShares, HcaWhoseGpuIsMissing_IsNamed) {
  EXPECT_THAT(found_on(one_to_one_machine()), IsEmpty());
  for (size_t gpu = 0; gpu < 4; ++gpu) {
    Machine machine = one_to_one_machine();
    machine.gpus.erase(machine.gpus.begin() + static_cast<ptrdiff_t>(gpu));
    EXPECT_THAT(found_on(machine),
                ElementsAre(HasSubstr("rail-share: mlx5_" + std::to_string(gpu) +
                                      ":1: like the rails, and near no GPU, where each of the 3 "
                                      "GPUs has a rail of its own: a GPU may be missing")));
    machine.hcas[gpu].ids.device = 0x101b;  // as that of a storage network
    EXPECT_THAT(found_on(machine), IsEmpty());
  }
}

TEST(CheckShares, GpuThatIsMissingOnASocketWithoutSwitches_ShowsInTheShareOfItsNeighbour) {
  for (size_t lost = 0; lost < 4; ++lost) {
    Machine machine = one_to_one_machine();
    for (Gpu& gpu : machine.gpus) gpu.at.parent = -1;
    for (Hca& hca : machine.hcas) hca.at.parent = -1;
    machine.gpus.erase(machine.gpus.begin() + static_cast<ptrdiff_t>(lost));
    const std::string neighbour = "rail-share: GPU" + std::to_string(lost / 2 * 2);
    EXPECT_THAT(found_on(machine), Contains(HasSubstr(neighbour + ": 2 rails for each, where ")));
  }
}

// Its GPU has shares of the rails of others, which makes these uneven, too.
TEST(CheckShares, HcaThatIsMissingWhereEachGpuHasOne_IsNamedByItsGpuAlone) {
  for (size_t lost = 0; lost < 4; ++lost) {
    Machine machine = one_to_one_machine();
    machine.hcas.erase(machine.hcas.begin() + static_cast<ptrdiff_t>(lost));
    std::vector<std::string> found = found_on(machine);
    std::erase_if(found, [](const auto& one) { return !one.starts_with("rail-share: "); });
    EXPECT_THAT(found, ElementsAre(HasSubstr("rail-share: GPU" + std::to_string(lost) +
                                             ": no HCA is below the same PCIe switch")));
  }
}

// A switch that is lost with its GPU and its HCA leaves nothing uneven.
TEST(CheckShares, NumberOfGpusThatIsNoPowerOfTwo_IsNotNamed) {
  Machine machine = one_to_one_machine();
  machine.gpus.pop_back();
  machine.hcas.erase(machine.hcas.begin() + 3);
  EXPECT_THAT(found_on(machine), IsEmpty());
}

TEST(CheckShares, RailThatIsDown_HidesNoHcaThatIsMissing) {
  Machine machine = with_more_hcas({0, 1, 2});
  machine.hcas[0].ports[0].state = Port::State::kDown;
  EXPECT_THAT(found_on(machine),
              ElementsAre(HasSubstr("port-down: "),
                          HasSubstr("rail-share: GPU6, GPU7: 1/2 of a rail for each, where ")));
  const topo::Inspection by_map{.decision = scene_of(machine),
                                .settings = {{"GDR_NCCL_RAIL_MAP", topo::UserSetting{}}}};
  EXPECT_THAT(found_in(by_map), ElementsAre(HasSubstr("port-down: ")));
  machine = with_more_hcas({0, 1, 2, 3});
  machine.hcas[0].ports[0].state = Port::State::kDown;
  EXPECT_THAT(found_on(machine), ElementsAre(HasSubstr("port-down: ")));
}

TEST(CheckShares, PortsLeftOutByTheUser_AreTheFaultInPlaceOfWhatFollows) {
  Machine machine = good_machine();
  machine.hcas.resize(3);
  const topo::Inspection inspection{.decision = scene_of(machine),
                                    .unrestricted = scene_of(good_machine()),
                                    .restricted_by = "NCCL_IB_HCA=^mlx5_3"};
  const std::vector<std::string> faults = found_in(inspection);
  EXPECT_THAT(faults, Contains(HasSubstr("restriction: GPU4, GPU5, GPU6, GPU7: NCCL_IB_HCA=^mlx5_3 "
                                         "leaves out mlx5_3:1, so that rails are farther")));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("rail-share"))));
}

}  // namespace
}  // namespace gdr::tools::doctor
