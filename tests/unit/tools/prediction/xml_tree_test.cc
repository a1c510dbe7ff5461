#include "tools/prediction/xml_tree.h"

#include <functional>

#include "tests/unit/tools/prediction/machines.h"

namespace gdr::topology::nccl {
namespace {

// GPUs and devices in the order of the tree: "G1 N0 G0".
std::string order_of(const Machine& machine, bool fuses_ranks) {
  const XmlTree tree = make_xml_tree(machine, all_ports(machine), fuses_ranks);
  std::string text;
  std::function<void(int)> visit = [&](int id) {
    const XmlElement& element = tree.elements[static_cast<size_t>(id)];
    for (int member : element.members) {
      text += (element.kind == XmlElement::Kind::kGpu ? " G" : " N") + std::to_string(member);
    }
    for (int child : element.children) visit(child);
  };
  for (int cpu : tree.cpus) visit(cpu);
  return text;
}

// Under one switch: GPU0, GPU1, mlx5_0; on the other socket: mlx5_1, GPU2.
Machine mixed() {
  MadeMachine made;
  const int one = made.add_switch(-1, 0);
  made.add_gpu(one, 0);
  made.add_gpu(one, 0);
  made.add_hca(one, 0);
  made.add_hca(-1, 1);
  made.add_gpu(-1, 1);
  return made.machine;
}

TEST(XmlTree, LiveMachine_HasTheFirstGpuAndAllDevicesBeforeOtherGpus) {
  EXPECT_EQ(order_of(mixed(), true), " G0 N0 G1 N1 G2");
}

TEST(XmlTree, BeforeFusion_IsSortedByAddress) {
  EXPECT_EQ(order_of(mixed(), false), " G0 G1 N0 N1 G2");
}

TEST(XmlTree, CpuOfTheFirstGpu_ComesFirst) {
  MadeMachine made;
  made.add_gpu(-1, 1);
  made.add_hca(-1, 0);
  made.add_gpu(-1, 0);
  EXPECT_EQ(order_of(made.machine, true), " G0 N0 G1");
}

// From 2.21 on a rank keeps only its own GPU of the file, and the others are appended.
TEST(XmlTree, File_HasItsOwnOrderButForGpusOfOtherRanks) {
  Machine machine = mixed();
  machine.switches[0].at.order = 1;
  machine.hcas[0].at.order = 2;
  machine.gpus[1].at.order = 3;
  machine.gpus[0].at.order = 4;
  machine.numa_nodes[0].order = 5;
  machine.numa_nodes[1].order = 0;
  machine.gpus[2].at.order = 6;
  machine.hcas[1].at.order = 7;
  EXPECT_EQ(order_of(machine, false), " G2 N1 N0 G1 G0");
  EXPECT_EQ(order_of(machine, true), " N1 G2 N0 G0 G1");
}

}  // namespace
}  // namespace gdr::topology::nccl
