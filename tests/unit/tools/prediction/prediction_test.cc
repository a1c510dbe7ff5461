// What nccl_answers_test.cc does not show: reasons and distances of verdicts, releases before 2.22,
// machines of other sources than NCCL's files, and where NCCL fails.
#include "tools/prediction/prediction.h"

#include "tests/unit/tools/prediction/machines.h"

namespace gdr::topology::nccl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One GPU with C2C, and HCAs of these speeds on its CPU.
Machine grace(const std::vector<int>& gbps = {400}) {
  MadeMachine made;
  made.machine.cpu = Cpu{"arm64", "", 0, 0};
  Gpu& gpu = made.add_gpu(-1, 0);
  gpu.c2c_links = 10;
  gpu.c2c_mb_per_s = 44712;
  for (int speed : gbps) made.add_hca(-1, 0, speed);
  return made.machine;
}

// GPU0 and mlx5_0 on one NUMA node without a switch; mlx5_1 on the other.
Machine two_nodes() {
  MadeMachine made;
  made.add_gpu(-1, 0);
  for (int numa : {0, 1}) made.add_hca(-1, numa);
  return made.machine;
}

// A second GPU beside GPU0, which is of before Ampere.
Machine old_gpus(int nvlinks) {
  MadeMachine made;
  for (int i = 0; i < 2; ++i) made.add_gpu(-1, 0).compute_capability = 70;
  made.add_hca(-1, 0);
  for (int i = 0; i < 2 && nvlinks > 0; ++i) {
    made.machine.gpus[i].nvlinks = {
        NvLink{NvLink::To::kGpu, made.machine.gpus[1 - i].bdf, nvlinks}};
  }
  return made.machine;
}

// GPU0 on the other socket than the switch of GPU1 and mlx5_0, all GPUs on an NVSwitch.
Machine with_a_far_gpu() {
  MadeMachine made;
  made.add_gpu(-1, 1);
  const int near = made.add_switch(-1, 0);
  made.add_gpu(near, 0);
  made.add_hca(near, 0);
  made.join_by_nvswitch();
  return made.machine;
}

Machine one_switch() {
  MadeMachine made;
  const int one = made.add_switch(-1, 0);
  made.add_gpu(one, 0);
  made.add_hca(one, 0);
  return made.machine;
}

Machine without_gpudirect(bool hca, bool gpu) {
  Machine machine = two_nodes();
  if (hca) machine.hcas[0].gpudirect = false;
  if (gpu) machine.gpus[0].gpudirect = false;
  return machine;
}

using Level = std::optional<PathClass>;
constexpr auto kSend = Direction::kSend;
constexpr auto kReceive = Direction::kReceive;

Settings of(const char* release, Level level = {}, int read = -2) {
  Settings settings = of_release(release);
  settings.gdr_level = level;
  settings.gdr_read = read;
  return settings;
}

Settings with_c2c(const char* release, bool c2c) {
  Settings settings = of_release(release);
  settings.gdr_c2c = c2c;
  return settings;
}

struct VerdictCase {
  Machine machine;
  Settings settings;
  size_t device;
  Direction direction;
  const char* verdict;  // of GPU0; a part of it
};

TEST(Verdicts, EachCase_HasItsReason) {
  constexpr char kNew[] = "2.30.7";
  constexpr Level kPhb = PathClass::kPhb, kPix = PathClass::kPix, kSys = PathClass::kSys;
  const std::string hca_alone = "no: mlx5_0 registers no GPU memory";
  const VerdictCase cases[] = {
      {two_nodes(), of(kNew), 0, kReceive,
       "no: PHB is beyond P2C, the level where NCCL_NET_GDR_LEVEL is unset"},
      {two_nodes(), of(kNew, kPix), 1, kReceive, "no: SYS is beyond NCCL_NET_GDR_LEVEL=PIX"},
      {two_nodes(), of(kNew, kPhb), 0, kReceive, "yes: PHB is within NCCL_NET_GDR_LEVEL=PHB"},
      {two_nodes(), of(kNew, kPhb), 1, kReceive, "no: SYS is beyond"},
      {two_nodes(), of(kNew, kSys), 1, kReceive, "yes: SYS"},
      {two_nodes(), of(kNew, kSys, 0), 0, kReceive, "yes: "},
      {two_nodes(), of(kNew, kSys, 0), 0, kSend, "no: NCCL_NET_GDR_READ=0"},
      {old_gpus(0), of(kNew, kSys), 0, kSend, "no: GPUs before compute capability 8.0 without"},
      {old_gpus(0), of(kNew, kSys), 0, kReceive, "yes: "},
      {old_gpus(0), of(kNew, kSys, 1), 0, kSend, "yes: "},
      {old_gpus(1), of(kNew, kSys), 0, kSend, "yes: "},
      {without_gpudirect(true, false), of(kNew, kSys), 0, kReceive, hca_alone.c_str()},
      {without_gpudirect(true, false), of(kNew, kSys), 1, kReceive, "yes: "},
      {without_gpudirect(false, true), of(kNew, kSys), 1, kReceive, "no: the driver offers no"},
      {grace(), of("2.25.1"), 0, kReceive,
       "no: PHB is beyond PXB, the level where NCCL_NET_GDR_LEVEL is unset; NCCL 2.25.1 has no "
       "GPUDirect over NVLink-C2C"},
      {grace(), with_c2c("2.25.1", true), 0, kReceive, "no: PHB"},
      {grace(), of("2.25.1", PathClass::kP2c), 0, kReceive,
       "P2C is not a path class of NCCL 2.25.1"},
      {grace(), of("2.25.1", kPhb), 0, kReceive, "yes: "},
      {grace(), of("2.26.6"), 0, kReceive,
       "no: PHB is beyond PXB, the level where NCCL_NET_GDR_LEVEL is unset; NCCL 2.26.6 uses "
       "GPUDirect over NVLink-C2C only with NCCL_NET_GDR_C2C=1"},
      {grace(), with_c2c("2.26.6", true), 0, kReceive, "yes: PHB, which NCCL 2.26.6 counts as C2C"},
      {grace(), of("2.28.9"), 0, kReceive,
       "yes: P2C, which NCCL 2.28.9 counts as C2C over NVLink-C2C, is within PXB, the level where "
       "NCCL_NET_GDR_LEVEL is unset"},
      {grace(), of("2.28.9", kPix), 0, kReceive, "yes: "},
      {grace(), of("2.29.7", kPix), 0, kReceive, "no: P2C is beyond NCCL_NET_GDR_LEVEL=PIX"},
      {grace(), of(kNew), 0, kReceive,
       "yes: P2C is within P2C, the level where NCCL_NET_GDR_LEVEL is unset"},
      {grace(), with_c2c(kNew, false), 0, kReceive,
       "no: P2C is beyond PXB, the level where NCCL_NET_GDR_LEVEL is unset; NCCL_NET_GDR_C2C=0 "
       "excludes NVLink-C2C"},
      // From 2.29 on the slower HCAs of a CPU are PHB, which is beyond P2C.
      {grace({200, 100}), of(kNew), 1, kReceive,
       "no: PHB is beyond P2C, the level where NCCL_NET_GDR_LEVEL is unset; NCCL 2.30.7 goes "
       "over NVLink-C2C only to the GPU's fastest HCAs"},
      {with_a_far_gpu(), of(kNew), 0, kSend, "yes: PXN through GPU1, from there PIX"},
      // Diverted over the CPU, and still named by its distance.
      {one_switch(), of(kNew, PathClass::kLoc), 0, kReceive,
       "no: PIX is beyond NCCL_NET_GDR_LEVEL=LOC"},
      {committed("cases/gb10b.xml"), of(kNew), 0, kReceive, "or gdr=\"0\" in NCCL's topology file"},
      {committed("cases/mlopart.xml"), of(kNew), 0, kReceive, "NCCL_NET_GDR_MLOPART=1"},
  };
  for (const VerdictCase& one : cases) {
    const Verdict verdict =
        predict_all(one.machine, one.settings).verdict(0, one.device, one.direction);
    EXPECT_THAT(to_string(verdict), HasSubstr(one.verdict));
    EXPECT_EQ(verdict.too_far, to_string(verdict).find("is beyond") != std::string::npos);
  }
}

TEST(Verdicts, PxnPairThatIsTooFar_HasTheDistanceOfTheIntermediateGpu) {
  const Verdict one =
      predict_all(with_a_far_gpu(), of("2.29.7", PathClass::kC2c)).verdict(0, 0, kSend);
  EXPECT_TRUE(one.too_far);
  EXPECT_EQ(one.distance, PathClass::kPix);
  EXPECT_TRUE(
      predict_all(with_a_far_gpu(), of("2.29.7", one.distance)).verdict(0, 0, kSend).direct);
}

TEST(Routes, OtherReleases_HaveTheirRules) {
  for (const char* release : {"2.20.5", "2.23.4"}) {
    const Prediction nccl = predict_all(with_a_far_gpu(), of(release));
    EXPECT_EQ(nccl.gpu_to_device(0, 0).path, PathClass::kPxn) << release;
    EXPECT_EQ(nccl.gpu_to_device(0, 0).through_gpu, 1);
    EXPECT_EQ(nccl.device_to_gpu(0, 0).path, PathClass::kSys);
  }
  const Machine cabled = committed("cases/pcilink.xml");
  EXPECT_EQ(predict_all(cabled, of("2.22.3")).device_to_gpu(0, 0).path, PathClass::kPxb);
  EXPECT_EQ(predict_all(cabled, of("2.21.5")).device_to_gpu(0, 0).path, PathClass::kPhb);
}

// The path over C2C is faster than that over a slow switch, which is nearer.
TEST(Routes, SlowSwitchBesideC2c_IsPreferredFrom2307) {
  MadeMachine made;
  made.machine.cpu = Cpu{"arm64", "", 0, 0};
  const int outer = made.add_switch(-1, 0), inner = made.add_switch(outer, 0);
  made.machine.switches[inner].link = PciLink{8, 16};
  Gpu& gpu = made.add_gpu(inner, 0);
  gpu.c2c_links = 10;
  gpu.c2c_mb_per_s = 44712;
  made.add_hca(outer, 0, 400);
  EXPECT_EQ(predict_all(made.machine, Settings{}).gpu_to_device(0, 0).path, PathClass::kPxb);
  EXPECT_EQ(predict_all(made.machine, of("2.30.4")).gpu_to_device(0, 0).path, PathClass::kP2c);
}

TEST(Routes, GpusOnPcieOfALiveMachine_CountFromTheFirstOfTheirSocket) {
  MadeMachine made;
  for (int numa : {0, 0, 1, 1}) made.add_gpu(-1, numa);
  for (int numa : {0, 0, 0, 1, 1, 1}) made.add_hca(-1, numa, 200);
  EXPECT_THAT(predict_all(made.machine, Settings{}).devices_of_gpu(2), ElementsAre(3, 4));
  EXPECT_THAT(predict_all(made.machine, of("2.30.4")).devices_of_gpu(2), ElementsAre(5, 3));
}

TEST(Failures, WhatNcclFailsOn_IsNamed) {
  MadeMachine one_way;
  for (int numa : {0, 1}) one_way.add_gpu(-1, numa);
  one_way.machine.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, one_way.machine.gpus[1].bdf, 4}};
  EXPECT_THAT(predict_all(one_way.machine, Settings{}).failure(), HasSubstr("reverse path"));
  EXPECT_THAT(predict_all(committed("cases/mlopart.xml"), of("2.29.7")).failure(),
              HasSubstr("sees only one"));
  // With C2C taken for NVLink, the path between two GPUs leads over their CPU.
  MadeMachine made;
  made.machine.cpu = Cpu{"arm64", "", 0, 0};
  for (int numa : {0, 0}) made.add_gpu(-1, numa).c2c_links = 10;
  made.machine.gpus[0].at.parent = made.add_switch(-1, 0);
  made.machine.gpus[0].c2c_mb_per_s = made.machine.gpus[1].c2c_mb_per_s = 44712;
  made.add_hca(0, 0, 400);
  EXPECT_THAT(predict_all(made.machine, of("2.25.1")).failure(), Not(IsEmpty()));
  EXPECT_EQ(predict_all(made.machine, of("2.26.6")).failure(), "");
}

// The id of such a <cpu> has no mask in 2.21 and 2.22.
TEST(Failures, UnknownNumaNodeBesideOthers_IsNotConnectedIn221And222) {
  const std::pair<const char*, bool> releases[] = {
      {"2.20.5", false}, {"2.21.5", true}, {"2.22.3", true}, {"2.23.4", false}, {"2.30.7", false}};
  for (const auto& [release, fails] : releases) {
    for (const bool hca_is_unknown : {false, true}) {
      MadeMachine made;
      made.add_gpu(-1, 0);
      made.add_hca(-1, hca_is_unknown ? 1 : 0);
      made.add_hca(-1, 1);
      made.machine.numa_nodes[1].id = -1;
      EXPECT_EQ(predict_all(made.machine, of(release)).failure().empty(), !fails) << release;
    }
  }
  MadeMachine alone;  // as in most virtual machines
  alone.add_gpu(-1, 0);
  alone.add_hca(-1, 0);
  alone.machine.numa_nodes = {{}};
  EXPECT_EQ(predict_all(alone.machine, of("2.21.5")).failure(), "");
}

TEST(Failures, OddMachines_AreSurvived) {
  EXPECT_EQ(predict_all(Machine{}, Settings{}).failure(), "");
  Machine unattached;
  unattached.gpus.resize(2);
  unattached.hcas.resize(1);
  unattached.hcas[0].ports.resize(1);
  for (const char* release : {"2.20.5", "2.25.1", "2.28.9", "2.30.4", "2.30.7"}) {
    EXPECT_EQ(predict_all(unattached, of(release)).gpu_to_device(0, 0).path, PathClass::kPhb);
    EXPECT_THAT(Prediction(unattached, {}, of(release)).devices_of_gpu(0), IsEmpty());
  }
  unattached.gpus.clear();
  EXPECT_EQ(predict_all(unattached, Settings{}).local_gpu(0), -1);
}

TEST(Speeds, UnknownOnes_AreAssumedAndStated) {
  MadeMachine made;
  made.add_gpu(-1, 0);
  made.add_hca(-1, 0, 200);
  made.add_hca(-1, 0, 0);
  made.machine.gpus[0].link = {};
  const Prediction nccl = predict_all(made.machine, Settings{});
  EXPECT_THAT(nccl.devices_of_gpu(0), ElementsAre(0, 1));
  EXPECT_EQ(nccl.assumptions().size(), 2u);
  made.add_gpu(-1, 0);
  made.machine.gpu_links_known = false;
  EXPECT_THAT(predict_all(made.machine, Settings{}).assumptions(),
              Contains(HasSubstr("NVLinks between GPUs are unknown")));
}

// Speed and width fall back to PCIe 3.0 and x16 separately, and a port's speed to 10 Gb/s.
TEST(Speeds, MissingInSysfsOrNcclsFile_AreWhatNcclAssumes) {
  struct Case {
    PciLink link;
    int mbps;
    float gb_per_s;
  };
  for (const Case& one : {Case{{}, 800000, 12.0F}, Case{{0, 8}, 800000, 6.0F},
                          Case{{16, 0}, 800000, 24.0F}, Case{{}, 0, 1.25F}}) {
    MadeMachine made;
    made.add_gpu(-1, 0).link = one.link;
    made.add_hca(-1, 0).ports[0].speed_mbps = one.mbps;
    Machine file = made.machine;
    file.nccl_file = made.machine.sysfs = true;
    for (const Machine& machine : {made.machine, file}) {
      const Prediction nccl = predict_all(machine, Settings{});
      EXPECT_THAT(nccl.assumptions(), IsEmpty());
      EXPECT_FLOAT_EQ(static_cast<float>(nccl.gpu_to_device(0, 0).gb_per_s), one.gb_per_s);
    }
  }
}

}  // namespace
}  // namespace gdr::topology::nccl
