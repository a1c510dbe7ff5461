#include <random>

#include "tests/unit/tools/doctor/facts/made_pci.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kAcsOfKernel = 0x1d;  // SrcValid, ReqRedir, CmpltRedir, UpstreamFwd

// The ACS control register of the HCA's port, and whether the HCA sends translated requests.
auto redirects(unsigned control, bool has_ats = false) {
  return [=](MadePci* made) {
    if (has_ats) made->config(kMadeHca, topology::config_space({{0x100, 0x000f, 0, 0x8000}}));
    made->config(kMadeHcaPort, topology::config_with_acs(control));
  };
}

// Root of a container, or a user, where the kernel shows no extended configuration space.
auto hidden_from(const char* uid) {
  return [=](MadePci* made) {
    made->config(kMadeHcaPort, std::string(64, '\0'));
    made->write("/proc/self/status", std::string("Name:\tnccl-gdr\nUid:\t") + uid + "\n");
    made->host.is_live = true;
  };
}

// GPU and HCA, each below a root port of its own.
void separate(MadePci* made) {
  made->set(topology::flat(1, 1));
  made->link("/sys/bus/pci/devices/0000:10:00.0",
             "/sys/devices/pci0000:00/0000:00:01.0/0000:10:00.0");
  made->link("/sys/bus/pci/devices/0000:40:00.0",
             "/sys/devices/pci0000:00/0000:00:02.0/0000:40:00.0");
  made->write("/sys/devices/pci0000:00/0000:00:02.0/config", topology::config_with_acs(0x1d));
}

TEST(PciAcs, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      "pci-acs",
      {{"without ACS", [](MadePci*) {}, Verdict::kOk},
       {"SrcValid, UpstreamFwd and DirectTrans turn nothing away", redirects(0x51), Verdict::kOk,
        "", "0000:19:00.0 without ACS, 0000:19:01.0 0x0051"},
       {"redirects", redirects(kAcsOfKernel), Verdict::kFailure, "PCIe port 0000:19:01.0",
        "0x001d (SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+)",
        "setpci -s 0000:19:01.0 ECAP_ACS+0x6.w=0000:002c",
        "setpci -s 0000:19:01.0 ECAP_ACS+0x6.w=0000:002c"},
       {"egress control", redirects(0x20), Verdict::kWarning},
       {"without GPUDirect RDMA",
        [](MadePci* made) {
          topology::Machine machine = one_switch();
          machine.hcas[0].gpudirect = false;
          made->set(machine);
          redirects(kAcsOfKernel)(made);
        },
        Verdict::kWarning},
       {"ATS with DirectTrans", redirects(0x44, true), Verdict::kOk},
       {"ATS with redirected answers", redirects(0x4c, true), Verdict::kWarning},
       {"ATS without DirectTrans", redirects(0x04, true), Verdict::kFailure},
       {"hidden from root of a container", hidden_from("0\t0\t0\t0"), Verdict::kUnknown, "", "",
        "CAP_SYS_ADMIN"},
       {"hidden from a user", hidden_from("1000\t1000\t1000\t1000"), Verdict::kUnknown, "", "",
        kNeedsRoot},
       {"virtual machine", [](MadePci* made) { made->make_virtual(); }, Verdict::kUnknown},
       {"redirects in a virtual machine",
        [](MadePci* made) {
          made->make_virtual();
          redirects(kAcsOfKernel)(made);
        },
        Verdict::kWarning},
       {"below root ports of their own", separate, Verdict::kOk, "",
        "no switch is above both of GPU0 and mlx5_0"},
       {"hidden devices", [](MadePci* made) { made->set(topology::flat(1, 1)); },
        Verdict::kUnknown},
       {"no GPU", [](MadePci* made) { made->set(topology::flat(0, 1)); }, Verdict::kNothing},
       {"no topology", [](MadePci* made) { made->host.inspection.reset(); }, Verdict::kUnknown}});
}

TEST(PciAcs, RedirectingPorts_NameThePairAndAreInOneParameterOfTheKernel) {
  MadePci made;
  redirects(kAcsOfKernel)(&made);
  Observations seen = seen_by("pci-acs", made.host);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen[0].evidence, HasSubstr("between GPU0 and mlx5_0"));
  EXPECT_THAT(seen[1].evidence, HasSubstr("virtual machines"));
  EXPECT_THAT(seen[1].fix, HasSubstr("'pci=disable_acs_redir=0000:19:01.0'"));
  EXPECT_THAT(seen[2].evidence, HasSubstr("0000:19:00.0 without ACS"));
  made.config(kMadeGpuPort, topology::config_with_acs(kAcsOfKernel));
  seen = seen_by("pci-acs", made.host);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen[2].fix, HasSubstr("redir=0000:19:00.0;0000:19:01.0'"));
}

TEST(PciAcs, PrivateIommuGroupsWithoutRoot_AreAHintAtRedirection) {
  MadePci made;
  for (const char* port : {kMadeGpuPort, kMadeHcaPort}) made.config(port, std::string(64, '\0'));
  Observations seen = seen_by("pci-acs", made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kUnknown);
  EXPECT_THAT(seen[0].needs, HasSubstr("run it as root"));
  EXPECT_THAT(seen[0].evidence, ::testing::Not(HasSubstr("IOMMU")));
  made.group(kMadeGpu, "DMA");
  made.group(kMadeHca, "DMA");
  seen = seen_by("pci-acs", made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kUnknown);
  EXPECT_THAT(seen[0].evidence, HasSubstr("IOMMU groups of their own (7 and 8)"));
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
    for (const char* check : {"pci-acs", "iommu"}) {
      EXPECT_FALSE(check_named(check).run(made.host).empty()) << check;
    }
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
