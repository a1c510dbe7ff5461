// What the machines of golden_test.cc and the trees of sysfs_test.cc do not show.
#include "topology/path_class.h"

#include <gtest/gtest.h>

#include "topology/builder.h"

namespace gdr::topology {
namespace {

Bdf at(const char* text) { return *Bdf::parse(text); }

PciPosition below(std::vector<const char*> bridges, int numa = 0, uint8_t root_bus = 0) {
  PciPosition position;
  for (const char* bridge : bridges)
    position.bridges.push_back(Bridge{at(bridge), 0x060400, {}, {}});
  position.host_bridge = HostBridge{0, root_bus};
  position.numa = numa;
  return position;
}

size_t add_gpu(Machine* machine, const char* bdf, const PciPosition& position) {
  Gpu gpu;
  gpu.bdf = at(bdf);
  gpu.at = attach(machine, position);
  machine->gpus.push_back(gpu);
  return machine->gpus.size() - 1;
}

size_t add_hca(Machine* machine, const char* bdf, const PciPosition& position) {
  Hca hca;
  hca.name = "mlx5_" + std::to_string(machine->hcas.size());
  hca.bdf = at(bdf);
  hca.at = attach(machine, position);
  hca.ports.push_back(Port{});
  machine->hcas.push_back(hca);
  return machine->hcas.size() - 1;
}

NvLink to_gpu(const char* bdf) { return NvLink{NvLink::To::kGpu, at(bdf), 4}; }

TEST(Attach, EvenNumberOfBridges_MakesTheRootPortTheSwitch) {
  Machine machine;
  Attachment a = attach(&machine, below({"00:01.0", "01:00.0"}));
  ASSERT_EQ(machine.switches.size(), 1u);
  EXPECT_EQ(machine.switches[a.parent].bdf, at("00:01.0"));
}

// Two cascades: the switch at 01:00.0 with those at 03:00.0 and 06:00.0 below it.
Machine cascade(const PciIds& above, const PciIds& below_it) {
  Machine machine;
  add_gpu(&machine, "05:00.0", below({"00:01.0", "01:00.0", "02:00.0", "03:00.0", "04:00.0"}));
  add_hca(&machine, "08:00.0", below({"00:01.0", "01:00.0", "02:01.0", "06:00.0", "07:00.0"}));
  for (Switch& one : machine.switches) one.ids = one.at.parent < 0 ? above : below_it;
  return machine;
}

TEST(PathClass, PartsOfABroadcomSwitch_AreOneAndOthersOfACascadeAreNot) {
  const PciIds gen4{0x1000, 0xc010, 0x1000, 0xa023}, other{0x1000, 0xc010, 0x1000, 0x1003};
  const PciIds gen5{0x1000, 0xc030, 0x1000, 0x0003}, inner{0x1000, 0xc030, 0x1000, 0x1003};
  const auto path = [](const PciIds& above, const PciIds& below_it) {
    return PathTable(cascade(above, below_it)).gpu_hca(0, 0);
  };
  EXPECT_EQ(path(gen4, gen4), PathClass::kPix);
  EXPECT_EQ(path(gen5, inner), PathClass::kPix);
  EXPECT_EQ(path(gen4, other), PathClass::kPxb);
  EXPECT_EQ(path(other, gen4), PathClass::kPxb);
  EXPECT_EQ(path(gen5, gen5), PathClass::kPxb);
}

TEST(PathClass, OneNumaNode_IsPhbAndShownAsNodeAcrossHostBridges) {
  Machine machine;
  add_gpu(&machine, "01:00.0", below({"00:01.0"}, 0, 0));
  add_hca(&machine, "02:00.0", below({"00:02.0"}, 0, 0));
  add_hca(&machine, "41:00.0", below({"40:01.0"}, 0, 0x40));
  PathTable paths(machine);
  EXPECT_EQ(paths.gpu_hca(0, 0), PathClass::kPhb);
  EXPECT_EQ(paths.gpu_hca(0, 1), PathClass::kPhb);
  auto shown = [&](size_t hca) {
    return std::string(
        display_name(paths.gpu_hca(0, hca), machine.gpus[0].at, machine.hcas[hca].at));
  };
  EXPECT_EQ(shown(0), "PHB");
  EXPECT_EQ(shown(1), "NODE");
}

TEST(PathClass, UnknownNumaNode_IsANodeOfItsOwn) {
  Machine machine;
  add_gpu(&machine, "00:06.0", below({}, -1));
  add_hca(&machine, "00:08.0", below({}, -1));
  add_hca(&machine, "01:00.0", below({"00:01.0"}, 0));
  PathTable paths(machine);
  EXPECT_EQ(paths.gpu_hca(0, 0), PathClass::kPhb);
  EXPECT_EQ(paths.gpu_hca(0, 1), PathClass::kSys);
}

TEST(PathClass, C2cToTheCpuOfTheHca_IsPhbAndBesideASwitchPix) {
  Machine machine;
  size_t gpu = add_gpu(&machine, "0009:01:00.0", below({"0009:00:00.0"}, 0));
  machine.gpus[gpu].c2c_links = 10;
  add_hca(&machine, "0000:01:00.0", below({"0000:00:00.0"}, 0, 0x10));
  add_hca(&machine, "0010:01:00.0", below({"0010:00:00.0"}, 1, 0x20));
  gpu = add_gpu(&machine, "03:00.0", below({"00:01.0", "01:00.0", "02:00.0"}));
  machine.gpus[gpu].c2c_links = 10;
  add_hca(&machine, "04:00.0", below({"00:01.0", "01:00.0", "02:01.0"}));
  PathTable paths(machine);
  EXPECT_EQ(paths.gpu_hca(0, 0), PathClass::kPhb);
  EXPECT_EQ(paths.gpu_hca(0, 1), PathClass::kSys);
  EXPECT_EQ(paths.gpu_hca(1, 2), PathClass::kPix);
}

TEST(PathClass, NvLinks_AreNearerThanPcie) {
  Machine machine;
  for (const char* bdf : {"01:00.0", "02:00.0", "03:00.0", "04:00.0"}) {
    add_gpu(&machine, bdf, below({"00:01.0"}));
  }
  machine.gpus[0].nvlinks = {to_gpu("02:00.0")};
  machine.gpus[1].nvlinks = {to_gpu("01:00.0"), to_gpu("03:00.0")};
  PathTable paths(machine);
  EXPECT_EQ(paths.gpu_gpu(0, 0), PathClass::kLoc);
  EXPECT_EQ(paths.gpu_gpu(0, 1), PathClass::kNvl);
  EXPECT_EQ(paths.gpu_gpu(2, 1), PathClass::kNvl);  // only one end reports the link
  EXPECT_EQ(paths.gpu_gpu(0, 2), PathClass::kNvb);
  EXPECT_EQ(paths.gpu_gpu(0, 3), PathClass::kPhb);
}

TEST(PathClass, GpusWithC2cToOneCpu_AreC2c) {
  Machine machine;
  add_gpu(&machine, "0008:01:00.0", below({"0008:00:00.0"}, 0));
  add_gpu(&machine, "0009:01:00.0", below({"0009:00:00.0"}, 0));
  add_gpu(&machine, "0018:01:00.0", below({"0018:00:00.0"}, 1));
  for (Gpu& gpu : machine.gpus) gpu.c2c_links = 10;
  EXPECT_EQ(PathTable(machine).gpu_gpu(0, 1), PathClass::kC2c);
  EXPECT_EQ(PathTable(machine).gpu_gpu(0, 2), PathClass::kSys);
  machine.gpus[1].c2c_links = 0;
  EXPECT_EQ(PathTable(machine).gpu_gpu(0, 1), PathClass::kPhb);
}

TEST(PathClass, Names_AreNcclsInItsOrder) {
  std::string names;
  for (int i = 0; i < kPathClasses; ++i) names += to_string(static_cast<PathClass>(i));
  EXPECT_EQ(names, "LOCNVLNVBC2CPIXPXBP2CPXNPHBSYS");
}

TEST(NameLess, Numbers_CountAsNumbers) {
  EXPECT_TRUE(name_less("mlx5_2", "mlx5_10"));
  EXPECT_FALSE(name_less("mlx5_10", "mlx5_2"));
  EXPECT_FALSE(name_less("mlx5_2", "mlx5_2"));
  EXPECT_TRUE(name_less("mlx5_bond_0", "mlx5_bond_0a"));
  EXPECT_TRUE(name_less("irdma1", "mlx5_0"));
  EXPECT_NE(name_less("rxe01", "rxe1"), name_less("rxe1", "rxe01"));
}

}  // namespace
}  // namespace gdr::topology
