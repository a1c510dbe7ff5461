#include "topology/gdr_level.h"

#include <gmock/gmock.h>

#include "topology/builder.h"

namespace gdr::topology {
namespace {

using ::testing::HasSubstr;

TEST(GdrLevel, EveryClassByName_IsThatClass) {
  for (int i = 0; i < kPathClasses; ++i) {
    PathClass path = static_cast<PathClass>(i);
    Result<GdrLevel> level = GdrLevel::parse(to_string(path));
    ASSERT_TRUE(level) << to_string(path);
    EXPECT_EQ(level->path(), path);
    EXPECT_EQ(level->number_note(), "");
  }
}

TEST(GdrLevel, Numbers_AreReadAsNcclReadsThem) {
  const std::pair<const char*, PathClass> cases[] = {
      {"0", PathClass::kLoc},  {"1", PathClass::kPix},
      {"2", PathClass::kPxb},  {"3", PathClass::kPhb},
      {"4", PathClass::kSys},  {"5", PathClass::kSys},
      {"99", PathClass::kSys}, {"0x2", PathClass::kPxb},
      {"03", PathClass::kPhb}, {"08", PathClass::kLoc},  // no octal digit: strtol stops at the 0
      {"3x", PathClass::kPhb}, {"99999999999999999999", PathClass::kSys}};
  for (const auto& [text, path] : cases) {
    Result<GdrLevel> level = GdrLevel::parse(text);
    ASSERT_TRUE(level) << text;
    EXPECT_EQ(level->path(), path) << text;
    EXPECT_THAT(level->number_note(), HasSubstr(to_string(path))) << text;
  }
}

TEST(GdrLevel, TextThatNcclIgnores_IsAnError) {
  for (const char* text : {"", "pix", "PIXX", " PIX", "-1", "NODE", "NET", "x3"}) {
    EXPECT_FALSE(GdrLevel::parse(text)) << text;
  }
}

TEST(GdrPolicy, LevelUnset_DependsOnC2c) {
  EXPECT_EQ(GdrPolicy{}.farthest(), PathClass::kP2c);
  EXPECT_EQ((GdrPolicy{std::nullopt, -2, false}.farthest()), PathClass::kPxb);
  EXPECT_EQ((GdrPolicy{PathClass::kPix, -2, true}.farthest()), PathClass::kPix);
}

// GPU0 and mlx5_0 on one NUMA node without a switch; mlx5_1 on the other.
class Verdicts : public ::testing::Test {
 protected:
  Verdicts() {
    add_gpu("01:00.0", 0);
    add_hca("mlx5_0", "02:00.0", 0);
    add_hca("mlx5_1", "82:00.0", 1);
  }
  void add_gpu(const char* bdf, int numa) {
    Gpu gpu;
    gpu.bdf = *Bdf::parse(bdf);
    gpu.at.numa = numa_index(&machine_, numa);
    machine_.gpus.push_back(gpu);
  }
  void add_hca(const char* name, const char* bdf, int numa) {
    Hca hca;
    hca.name = name;
    hca.bdf = Bdf::parse(bdf);
    hca.at.numa = numa_index(&machine_, numa);
    hca.ports.push_back(Port{});
    machine_.hcas.push_back(hca);
  }
  Verdict verdict(const GdrPolicy& policy, size_t hca, Direction direction = Direction::kReceive) {
    return gdr_verdict(machine_, PathTable(machine_), policy, 0, hca, direction);
  }

  Machine machine_;
};

TEST_F(Verdicts, PathBeyondTheLevel_IsNotDirectAndTheReasonNamesBoth) {
  Verdict one = verdict({}, 0);
  EXPECT_FALSE(one.direct);
  EXPECT_THAT(one.reason, HasSubstr("PHB is beyond P2C"));
  EXPECT_THAT(one.reason, HasSubstr("unset"));
  EXPECT_THAT(verdict({PathClass::kPix, -2, true}, 1).reason,
              HasSubstr("SYS is beyond NCCL_NET_GDR_LEVEL=PIX"));
}

TEST_F(Verdicts, PathWithinTheLevel_IsDirect) {
  GdrPolicy phb{PathClass::kPhb, -2, true}, sys{PathClass::kSys, -2, true};
  EXPECT_TRUE(verdict(phb, 0).direct);
  EXPECT_FALSE(verdict(phb, 1).direct);
  EXPECT_TRUE(verdict(sys, 1).direct);
}

TEST_F(Verdicts, ReadSwitchedOff_LeavesReceivesDirect) {
  GdrPolicy policy{PathClass::kSys, 0, true};
  EXPECT_TRUE(verdict(policy, 0).direct);
  EXPECT_FALSE(verdict(policy, 0, Direction::kSend).direct);
}

TEST_F(Verdicts, OldGpuAmongSeveral_SendsOnlyWithNvLinkOrReadSwitchedOn) {
  add_gpu("03:00.0", 0);
  machine_.gpus[0].compute_capability = 70;
  GdrPolicy policy{PathClass::kSys, -2, true};
  EXPECT_FALSE(verdict(policy, 0, Direction::kSend).direct);
  EXPECT_TRUE(verdict(policy, 0, Direction::kReceive).direct);
  EXPECT_TRUE(verdict({PathClass::kSys, 1, true}, 0, Direction::kSend).direct);
  machine_.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, machine_.gpus[1].bdf, 1}};
  EXPECT_TRUE(verdict(policy, 0, Direction::kSend).direct);
}

TEST_F(Verdicts, OldGpuAlone_SendsDirectly) {
  machine_.gpus[0].compute_capability = 70;
  EXPECT_TRUE(verdict({PathClass::kSys, -2, true}, 0, Direction::kSend).direct);
}

TEST_F(Verdicts, DevicesWithoutSupport_AreTheReasonBeforeDistance) {
  GdrPolicy policy{PathClass::kSys, -2, true};
  machine_.hcas[0].gpudirect = false;
  EXPECT_THAT(verdict(policy, 0).reason, HasSubstr("mlx5_0 registers no GPU memory"));
  EXPECT_TRUE(verdict(policy, 1).direct);
  machine_.gpus[0].gpudirect = false;
  EXPECT_FALSE(verdict(policy, 1).direct);
}

TEST_F(Verdicts, Pxn_IsJudgedByThePathOfTheOtherGpu) {
  add_gpu("83:00.0", 1);
  for (Gpu& gpu : machine_.gpus) gpu.nvlinks = {NvLink{}};
  machine_.switches.push_back(Switch{*Bdf::parse("81:00.0"), {-1, 1, -1}, 0x060400, {}, {}});
  machine_.gpus[1].at.parent = machine_.hcas[1].at.parent = 0;
  Verdict one = verdict({}, 1);
  EXPECT_TRUE(one.direct);
  EXPECT_THAT(one.reason, HasSubstr("PXN through GPU1, from there PIX"));
}

}  // namespace
}  // namespace gdr::topology
