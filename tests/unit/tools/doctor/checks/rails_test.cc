#include "tests/unit/tools/doctor/checked_machine.h"

namespace gdr::tools::doctor {
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
using topology::scene_of;

TEST(CheckRails, MissingDevices_AreOneFindingEach) {
  const char* no_hca = "no-hca: the machine shows no HCA, so that no GPU has a rail. Fix: look at";
  expect_found({
      {"no HCA", [](Machine* machine) { machine->hcas.clear(); }, {no_hca}},
      {"no GPU",
       [](Machine* machine) { machine->gpus.clear(); },
       {"no-gpu: the machine shows no GPU"}},
      {"neither", [](Machine* machine) { *machine = {}; }, {"no-gpu: ", no_hca}},
  });
}

TEST(CheckRails, RailBeyondTheLevel_IsOneFindingForAllGpusWithTheReason) {
  Machine machine = flat(2, 2);
  machine.cpu.arch = "x86_64";
  EXPECT_THAT(
      found_on(machine),
      ElementsAre(
          AllOf(HasSubstr("gdr-reach: GPU0, GPU1: no GPUDirect RDMA with the own rail (mlx5_0:1, "),
                HasSubstr("copied through host memory"), HasSubstr("PHB is beyond"),
                HasSubstr("Fix: export NCCL_NET_GDR_LEVEL=PHB, and measure both"),
                HasSubstr("in a virtual machine, NCCL_TOPO_FILE"))));
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  EXPECT_THAT(found_on(machine, {}, settings), IsEmpty());
}

// GPU4 and its rail are on different sockets, and NCCL reaches the HCAs of others over NVLink.
TEST(CheckRails, RailBeyondTheLevelThatNcclDoesNotUse_IsNotBlamedForCopies) {
  Machine machine = good_machine();
  machine.gpus.resize(5);
  for (Gpu& gpu : machine.gpus) gpu.nvlinks = {NvLink{NvLink::To::kSwitch, {}, 12}};
  machine.hcas.resize(3);
  machine.hcas[2].at = Attachment{-1, 0, -1};
  machine.gpus[4].at = Attachment{-1, 1, -1};
  for (Hca& hca : machine.hcas) hca.link = PciLink{16, 16};
  const std::vector<std::string> found = found_on(machine);
  EXPECT_THAT(found, Contains(AllOf(HasSubstr("gdr-reach: GPU4: no GPUDirect RDMA"),
                                    HasSubstr("but with the HCAs that NCCL uses in its place"))));
  EXPECT_THAT(found, Not(Contains(HasSubstr("copied through host memory"))));
}

TEST(CheckRails, FixOfARailOutOfReach_IsTheLineThatChangesIt) {
  topology::nccl::Settings settings;
  EXPECT_THAT(found_on(lopsided(), {}, settings),
              Contains(AllOf(HasSubstr("gdr-reach: GPU1: "), HasSubstr("different NUMA nodes"),
                             HasSubstr("export NCCL_NET_GDR_LEVEL=SYS allows it"))));
  Machine unknown = lopsided();
  unknown.numa_nodes[0].id = -1;
  EXPECT_THAT(found_on(unknown, {}, settings),
              Contains(AllOf(HasSubstr("the NUMA node of GPU or HCA is unknown (SYS)"),
                             HasSubstr("Fix: state the NUMA node"), Not(HasSubstr("an HCA on")))));
  settings.gdr_level = PathClass::kLoc;
  EXPECT_THAT(found_on(good_machine(), {}, settings),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, "),
                                EndsWith("Fix: unset NCCL_NET_GDR_LEVEL"))));
  Machine with_c2c = flat(2, 2);
  for (Gpu& gpu : with_c2c.gpus) gpu.c2c_links = 10;
  settings = {};
  settings.gdr_c2c = false;
  EXPECT_THAT(found_on(with_c2c, {}, settings),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, GPU1: "),
                                EndsWith("Fix: export NCCL_NET_GDR_C2C=1"))));
}

std::vector<std::string> consequences_of(const Machine& machine) {
  return found_in({scene_of(machine)}, {}, true);
}

TEST(CheckRails, HcaThatNcclUsesInPlaceOfTheRail_IsNamedWithTheReason) {
  EXPECT_THAT(consequences_of(good_machine()), IsEmpty());
  Machine slow = good_machine();
  slow.hcas[1].ports[0].speed_mbps = 200000;
  EXPECT_THAT(consequences_of(slow),
              ElementsAre(AllOf(HasSubstr("nccl-choice: GPU2: NCCL uses mlx5_"),
                                HasSubstr("where the rail is mlx5_1:1, as NCCL prefers bandwidth"),
                                HasSubstr("first what else nccl-gdr doctor finds")),
                          HasSubstr("nccl-choice: GPU3: ")));
}

// The HCAs are of two models, so that neither is called slow.
TEST(CheckRails, ChoiceThatNoSettingChanges_NamesWhatToLookAt) {
  Machine machine = good_machine();
  machine.hcas[2].ids.device += 1;
  machine.hcas[2].ports[0].speed_mbps = 200000;
  EXPECT_THAT(consequences_of(machine),
              Contains(AllOf(HasSubstr("nccl-choice: "),
                             HasSubstr("look at the slot and the port of mlx5_2:1"),
                             HasSubstr("move its card"))));
  topo::Inspection inspection{scene_of(machine)};
  inspection.decision.findings = {
      {FindingKind::kTopologyFile, Severity::kWarning, "", "link_speed is unknown", "write it"}};
  EXPECT_THAT(found_in(inspection, {}, true), Not(Contains(HasSubstr("slot"))));
}

TEST(CheckRails, MachineOnWhichNcclFails_IsNamed) {
  Machine machine = good_machine();
  machine.gpus[4].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[7].bdf, 2}};
  EXPECT_THAT(consequences_of(machine),
              Contains(HasSubstr("nccl-fails: NCCL 2.30.7 fails on this machine: ")));
}

// A slow link that the decision warns of is judged with the ports.
TEST(CheckMachine, WarningsOfTheDecision_AreFindingsAndInfosAreNot) {
  topo::Inspection inspection{scene_of(good_machine())};
  inspection.decision.findings = {
      {FindingKind::kGdrLevel, Severity::kInfo, "", "an info", ""},
      {FindingKind::kBadValue, Severity::kWarning, "NCCL_IB_X", "is wrong", ""},
      {FindingKind::kSlowLink, Severity::kWarning, "mlx5_1:1", "the link runs at 100 Gb/s", ""},
      {FindingKind::kAcs, Severity::kWarning, "GPU0 and mlx5_0", "ACS redirects", ""}};
  EXPECT_THAT(found_in(inspection),
              ElementsAre("bad-value: NCCL_IB_X: is wrong", "acs: GPU0 and mlx5_0: ACS redirects"));
}

TEST(CheckNuma, UnknownNode_IsNamedWhereThereAreSeveral) {
  auto lose_node = [](Machine* machine) {
    machine->numa_nodes.push_back({-1, -1, ""});
    machine->hcas[3].at.numa = static_cast<int>(machine->numa_nodes.size()) - 1;
  };
  Machine machine = good_machine();
  lose_node(&machine);
  EXPECT_THAT(found_on(machine),
              Contains(HasSubstr("numa-node: mlx5_3 (0000:74:00.0): the NUMA node is unknown")));
  machine = flat(2, 1);
  machine.numa_nodes.resize(1);
  for (Gpu& gpu : machine.gpus) gpu.at.numa = -1;
  EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("numa-node"))));
  machine.numa_nodes.push_back(machine.numa_nodes[0]);
  machine.numa_nodes[1].id = 1;
  EXPECT_THAT(found_on(machine), Contains(HasSubstr("numa-node")));
}

// NCCL's files have a CPU for the devices of each node, also for those whose node is unknown.
TEST(CheckNuma, CpuOfUnknownNodeBesideAnother_IsNamedInAFileOfNccl) {
  Machine machine = good_machine();
  machine.numa_nodes[1].id = -1;
  EXPECT_THAT(found_on(machine), IsEmpty());
  machine.nccl_file = true;
  EXPECT_THAT(found_on(machine),
              ElementsAre(AllOf(HasSubstr("numa-node: GPU4"), HasSubstr("takes the devices to be"),
                                HasSubstr("Fix: correct numaid in the file"))));
}

auto warned_of(FindingKind kind) {
  return [kind](InspectedHost* made) {
    made->host.inspection->decision.findings.push_back({kind, Severity::kWarning, "", "odd", "x"});
  };
}

// HCAs that go together with the GPUs below their switches, of which one is missing.
TEST(CheckRails, MissingHca_IsTheFixInPlaceOfALevel) {
  for (const std::ptrdiff_t lost : {0, 3}) {
    Machine machine = good_machine();
    for (Gpu& gpu : machine.gpus) gpu.nvlinks.clear();  // else NCCL uses PXN
    machine.hcas.erase(machine.hcas.begin() + lost);
    const std::vector<std::string> found = found_on(machine);
    EXPECT_THAT(found, Contains(AllOf(HasSubstr("gdr-reach: GPU"),
                                      HasSubstr("Fix: find the HCA that is missing or"))));
    EXPECT_THAT(found, Not(Contains(HasSubstr("NCCL_NET_GDR_LEVEL="))));
  }
}

void take_ports_down(Machine* machine) {
  for (Hca& hca : machine->hcas) {
    for (Port& port : hca.ports) port.state = Port::State::kDown;
  }
}

TEST(Rails, EachCase_HasItsVerdict) {
  expect_worst<InspectedHost>(
      "rails", {{"even", changed([](Machine*) {}), Verdict::kOk, "",
                 "GPU0 mlx5_0:1, GPU1 mlx5_0:1, GPU2 mlx5_1:1"},
                {"missing HCA",
                 changed([](Machine* machine) { machine->hcas.erase(machine->hcas.begin()); }),
                 Verdict::kWarning, "GPU0"},
                {"no usable port", changed(take_ports_down), Verdict::kFailure, "", "no rail"},
                {"warning about the topology", warned_of(FindingKind::kTopologyUnknown),
                 Verdict::kWarning, "", "odd", "x"},
                {"warning about a variable", warned_of(FindingKind::kBadValue), Verdict::kOk},
                kNoGpuCase,
                kAbsentGpusCase,
                kNoHcaCase,
                kNoTopologyCase});
}

TEST(GpuRailPath, EachCase_HasItsVerdict) {
  topology::nccl::Settings no_reads, too_low;
  no_reads.gdr_read = 0;
  too_low.gdr_level = PathClass::kLoc;
  const auto good = [](Machine*) {};
  expect_worst<InspectedHost>(
      "gpu-rail-path",
      {{"near", changed(good), Verdict::kOk, "GPU0 (0000:13:00.0)",
        "its rail is mlx5_0:1 at PIX; GPUDirect RDMA: yes"},
       {"near an HCA without GPUDirect RDMA", changed([](Machine* machine) {
          for (Hca& hca : machine->hcas) hca.gpudirect = false;
        }),
        Verdict::kOk, "", "for another reason"},
       {"directions that differ", changed(good, no_reads), Verdict::kOk, "", "for sending: no"},
       {"a level that forbids a near rail",
        [&](InspectedHost* made) {
          changed(good, too_low)(made);
          made->host.inspection->settings["NCCL_NET_GDR_LEVEL"] = {};
        },
        Verdict::kFailure, "", "no GPUDirect RDMA with the own rail", "NCCL_NET_GDR_LEVEL"},
       {"far away", changed([](Machine* machine) {
          *machine = flat(1, 1);
          machine->hcas[0].gpudirect = true;
        }),
        Verdict::kWarning, "", "with the own rail (mlx5_0:1)", "NCCL_NET_GDR_LEVEL"},
       {"no rail", changed(take_ports_down), Verdict::kUnknown},
       kNoGpuCase,
       kAbsentGpusCase,
       kNoHcaCase,
       kNoTopologyCase});
}

TEST(GpuRailPath, NearerRailThatIsDown_IsNamedAndNoLevelAdvised) {
  InspectedHost made;
  changed([](Machine* machine) {
    for (Gpu& gpu : machine->gpus) gpu.nvlinks.clear();  // else NCCL uses PXN
    machine->hcas[1].ports[0].state = Port::State::kDown;
  })(&made);
  const Observations seen = seen_by("gpu-rail-path", made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].subject, HasSubstr("GPU2 (0000:"));
  EXPECT_THAT(seen[0].evidence,
              HasSubstr("its nearest port mlx5_1:1 is DOWN, so that it shares mlx5_"));
  for (const Observation& one : seen) EXPECT_THAT(one.fix, Not(HasSubstr("LEVEL")));
}

}  // namespace
}  // namespace gdr::tools::doctor
