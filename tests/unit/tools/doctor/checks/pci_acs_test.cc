#include <gmock/gmock.h>

#include <random>

#include "tests/unit/tools/doctor/made_pci.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kAcsOfKernel = 0x1d;  // SrcValid, ReqRedir, CmpltRedir, UpstreamFwd

void redirect(MadePci* made, unsigned control = kAcsOfKernel) {
  made->config(kMadeHcaPort, topology::config_with_acs(control));
}

TEST(PciAcs, PortWithoutRedirection_IsOk) {
  MadePci made;
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kOk);
  redirect(&made, 0x51);  // SrcValid, UpstreamFwd and DirectTrans turn nothing away
  const Observations seen = pci_acs().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, HasSubstr("0000:19:00.0 without ACS, 0000:19:01.0 0x0051"));
}

TEST(PciAcs, RedirectingPort_IsAFailureThatNamesPortAndPair) {
  MadePci made;
  redirect(&made);
  const Observations seen = pci_acs().run(made.host);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "PCIe port 0000:19:01.0");
  EXPECT_THAT(seen[0].evidence, HasSubstr("0x001d (SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+)"));
  EXPECT_THAT(seen[0].evidence, HasSubstr("between GPU0 and mlx5_0"));
  EXPECT_EQ(seen[0].fix, "setpci -s 0000:19:01.0 ECAP_ACS+0x6.w=0000:002c");
  EXPECT_THAT(seen[1].fix, HasSubstr("'pci=disable_acs_redir=0000:19:01.0'"));
  EXPECT_THAT(seen[2].evidence, HasSubstr("0000:19:00.0 without ACS"));
}

TEST(PciAcs, StepOfARedirectingPort_ClearsThreeBitsAndUndoesIt) {
  MadePci made;
  redirect(&made);
  const std::vector<FixStep> steps = pci_acs().run(made.host)[0].steps;
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].command, "setpci -s 0000:19:01.0 ECAP_ACS+0x6.w=0000:002c");
  EXPECT_EQ(steps[0].undo, "setpci -s 0000:19:01.0 ECAP_ACS+0x6.w=001d:002c");
  EXPECT_THAT(steps[0].comment, HasSubstr("VFIO"));
}

TEST(PciAcs, SeveralPorts_AreInOneParameterOfTheKernel) {
  MadePci made;
  redirect(&made);
  made.config(kMadeGpuPort, topology::config_with_acs(kAcsOfKernel));
  const Observations seen = pci_acs().run(made.host);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen[2].fix, HasSubstr("redir=0000:19:00.0;0000:19:01.0'"));
}

TEST(PciAcs, EgressControl_IsAWarning) {
  MadePci made;
  redirect(&made, 0x20);
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kWarning);
}

TEST(PciAcs, PairWithoutGpuDirect_IsAWarning) {
  topology::Machine machine = one_switch();
  machine.hcas[0].gpudirect = false;
  MadePci made(machine);
  redirect(&made);
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kWarning);
}

TEST(PciAcs, HcaWithAtsAndDirectTranslated_IsOkUnlessAnswersAreRedirected) {
  MadePci made;
  made.config(kMadeHca, topology::config_space({{0x100, 0x000f, 0, 0x8000}}));
  redirect(&made, 0x44);
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kOk);
  redirect(&made, 0x4c);
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kWarning);
  redirect(&made, 0x04);
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kFailure);
}

TEST(PciAcs, PrivateIommuGroupsWithoutRoot_AreAHintAtRedirection) {
  MadePci made;
  for (const char* port : {kMadeGpuPort, kMadeHcaPort}) made.config(port, std::string(64, '\0'));
  Observations seen = pci_acs().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kUnknown);
  EXPECT_THAT(seen[0].needs, HasSubstr("run it as root"));
  EXPECT_THAT(seen[0].evidence, ::testing::Not(HasSubstr("IOMMU")));
  made.group(kMadeGpu, "DMA");
  made.group(kMadeHca, "DMA");
  seen = pci_acs().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kUnknown);
  EXPECT_THAT(seen[0].evidence, HasSubstr("IOMMU groups of their own (7 and 8)"));
}

TEST(PciAcs, RootOfAContainer_NeedsMoreThanRoot) {
  MadePci made;
  made.config(kMadeHcaPort, std::string(64, '\0'));
  made.write("/proc/self/status", "Name:\tnccl-gdr\nUid:\t0\t0\t0\t0\n");
  made.host.is_live = true;
  EXPECT_THAT(pci_acs().run(made.host)[0].needs, HasSubstr("CAP_SYS_ADMIN"));
  made.write("/proc/self/status", "Name:\tnccl-gdr\nUid:\t1000\t1000\t1000\t1000\n");
  EXPECT_EQ(pci_acs().run(made.host)[0].needs, "run it as root");
}

TEST(PciAcs, VirtualMachine_IsUnknownAndRedirectionThereAWarning) {
  MadePci made;
  made.make_virtual();
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kUnknown);
  redirect(&made);
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kWarning);
}

TEST(PciAcs, DevicesBelowRootPortsOfTheirOwn_AreOk) {
  MadePci made(topology::flat(1, 1));
  made.link("/sys/bus/pci/devices/0000:10:00.0",
            "/sys/devices/pci0000:00/0000:00:01.0/0000:10:00.0");
  made.link("/sys/bus/pci/devices/0000:40:00.0",
            "/sys/devices/pci0000:00/0000:00:02.0/0000:40:00.0");
  made.write("/sys/devices/pci0000:00/0000:00:02.0/config", topology::config_with_acs(0x1d));
  const Observations seen = pci_acs().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, HasSubstr("no switch is above both of GPU0 and mlx5_0"));
}

TEST(PciAcs, DevicesThatSysfsDoesNotShow_AreUnknown) {
  MadePci made(topology::flat(1, 1));
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kUnknown);
}

TEST(PciAcs, OddBytesInConfigurationSpace_GiveAVerdict) {
  std::mt19937 random(17);
  MadePci made;
  for (int round = 0; round < 20; ++round) {
    for (const char* address : {kMadeGpuPort, kMadeHcaPort, kMadeHca}) {
      std::string bytes(random() % 4097, '\0');
      // Small values make lists of capabilities that lead somewhere.
      for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? random() : 0x10);
      made.config(address, bytes);
    }
    for (const Check& check : {pci_acs(), iommu(), max_read_request(), relaxed_ordering()}) {
      EXPECT_FALSE(check.run(made.host).empty()) << check.name;
    }
  }
}

TEST(PciAcs, MachineWithoutGpu_IsOkAndWithoutTopologyUnknown) {
  MadePci made(topology::flat(0, 1));
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kNothing);
  made.host.inspection.reset();
  EXPECT_EQ(verdict_of(pci_acs(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
