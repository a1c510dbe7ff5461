// Rails, and GPUDirect RDMA with them.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using topology::flat;
using topology::lopsided;

TEST(Check, NoHca_IsOneFault) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->hcas.clear(); }),
              ElementsAre(HasSubstr("no-hca: the machine shows no HCA, so that no GPU has a rail. "
                                    "Fix: look at lspci and ibstat")));
}

TEST(Check, NoGpu_IsOneFault) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus.clear(); }),
              ElementsAre(HasSubstr("no-gpu: the machine shows no GPU")));
}

TEST(Check, RailBeyondTheLevel_IsOneFaultForAllGpusWithTheReason) {
  Machine machine = flat(2, 2);
  machine.cpu.arch = "x86_64";
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, GPU1: no GPUDirect RDMA"),
                                HasSubstr("copied through host memory"), HasSubstr("PHB is beyond"),
                                HasSubstr("Fix: export NCCL_NET_GDR_LEVEL=PHB, and measure both"),
                                HasSubstr("in a virtual machine, NCCL_TOPO_FILE"))));
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  EXPECT_THAT(faults_of(report_on(machine, {}, settings)), IsEmpty());
}

// GPU4 and its rail are on different sockets, and NCCL reaches the HCAs of others over NVLink.
TEST(Check, RailBeyondTheLevelThatNcclDoesNotUse_IsNotBlamedForCopies) {
  Machine machine = good_machine();
  machine.gpus.resize(5);
  for (Gpu& gpu : machine.gpus) gpu.nvlinks.clear();
  for (Gpu& gpu : machine.gpus) gpu.nvlinks = {NvLink{NvLink::To::kSwitch, {}, 12}};
  machine.hcas.resize(3);
  machine.hcas[2].at = Attachment{-1, 0, -1};
  machine.gpus[4].at = Attachment{-1, 1, -1};
  for (Hca& hca : machine.hcas) hca.link = PciLink{16, 16};
  const std::vector<std::string> faults = faults_of(report_on(machine));
  EXPECT_THAT(faults, Contains(AllOf(HasSubstr("gdr-reach: GPU4: no GPUDirect RDMA"),
                                     HasSubstr("but with the HCAs that NCCL uses in its place"))));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("copied through host memory"))));
}

TEST(Check, FixOfARailOutOfReach_IsTheLineThatChangesIt) {
  topology::nccl::Settings settings;
  EXPECT_THAT(faults_of(report_on(lopsided(), {}, settings)),
              Contains(AllOf(HasSubstr("gdr-reach: GPU1: "), HasSubstr("different NUMA nodes"),
                             HasSubstr("export NCCL_NET_GDR_LEVEL=SYS allows it"))));
  settings.gdr_level = PathClass::kLoc;
  EXPECT_THAT(faults_of(report_on(good_machine(), {}, settings)),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, "),
                                EndsWith("Fix: unset NCCL_NET_GDR_LEVEL"))));
  Machine with_c2c = flat(2, 2);
  for (Gpu& gpu : with_c2c.gpus) gpu.c2c_links = 10;
  settings = {};
  settings.gdr_c2c = false;
  EXPECT_THAT(faults_of(report_on(with_c2c, {}, settings)),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, GPU1: "),
                                EndsWith("Fix: export NCCL_NET_GDR_C2C=1"))));
}

}  // namespace
}  // namespace gdr::tools::topo
