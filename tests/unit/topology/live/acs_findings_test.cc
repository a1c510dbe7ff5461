#include "topology/live/acs_findings.h"

#include <gmock/gmock.h>

#include "plugin/config/load.h"
#include "plugin/config/topology_options.h"
#include "tests/unit/topology/sources/config_space.h"
#include "tests/unit/topology/sources/made_sysfs.h"
#include "topology/sources/sysfs.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kHow[] =
    " through the CPU, which costs GPUDirect much of its bandwidth. Fix: disable ACS in the "
    "firmware, or clear its redirect bits with setpci";
const std::string kOff = config_with_acs(0x11);
const std::string kOn = config_with_acs(0x1d);

// Findings as the log prints them.
struct Logged {
  std::vector<std::string> warnings = {};
  std::vector<std::string> infos = {};
  bool empty() const { return warnings.empty() && infos.empty(); }
};

class AcsFindings : public MadeSysfs {
 protected:
  std::filesystem::path function(const std::string& path, const std::string& pci_class) {
    std::filesystem::path folder = device(path, "pci");
    write(folder / "class", pci_class + "\n");
    write(folder / "numa_node", "0\n");
    link("bus/pci/devices/" + folder.filename().string(), folder);
    return folder;
  }
  // A switch with that bus above it, a GPU and mlx5_<bus> below: upstream port, two downstream
  // ports.
  void add_switch(int bus, const std::string& gpu_port, const std::string& hca_port) {
    char name[8];
    snprintf(name, sizeof name, "%02x", bus);
    std::string above = "pci0000:00/0000:00:0" + std::to_string(bus % 8) + "." +
                        std::to_string(bus / 8) + "/0000:" + name + ":00.0";
    function(std::filesystem::path(above).parent_path(), "0x060400");
    function(above, "0x060400");
    std::string ports = above + "/0000:" + std::to_string(bus + 40);
    write(function(ports + ":00.0", "0x060400") / "config", gpu_port);
    write(function(ports + ":01.0", "0x060400") / "config", hca_port);
    std::string gpu = ports + ":00.0/0000:" + std::to_string(bus + 60) + ":00.0";
    write(function(gpu, "0x030200") / "vendor", "0x10de\n");
    std::string hca = ports + ":01.0/0000:" + std::to_string(bus + 80) + ":00.0";
    this->hca("mlx5_" + std::to_string(bus), function(hca, "0x020700"));
  }
  Logged findings(const config::Environment& environment = {}) {
    Machine machine = *sysfs_machine(root_);
    machine.nccl_file = nccl_file_;
    DecisionOptions options = config::decision_options(config::load(environment, nullptr), machine);
    RailDecision decision = decide(std::move(machine), std::move(options), {});
    add_acs_findings(&decision, root_);
    Logged logged;
    for (const Finding& finding : decision.findings) {
      bool info = finding.severity == Severity::kInfo;
      (info ? logged.infos : logged.warnings).push_back(to_string(finding));
    }
    return logged;
  }

  bool nccl_file_ = false;
};

TEST_F(AcsFindings, RedirectOn_IsWarnedAboutForEachPair) {
  add_switch(1, kOn, kOff);
  add_switch(2, kOff, kOff);
  add_switch(3, kOn, kOn);
  Logged logged = findings();
  EXPECT_THAT(
      logged.warnings,
      ElementsAre(
          std::string("GPU0 and mlx5_1: ACS redirects peer-to-peer traffic at 0000:41:00.0") + kHow,
          std::string("GPU2 and mlx5_3: ACS redirects peer-to-peer traffic at 0000:43:00.0, "
                      "0000:43:01.0") +
              kHow));
  EXPECT_THAT(logged.infos, IsEmpty());
}

TEST_F(AcsFindings, RedirectOff_IsNotReported) {
  add_switch(1, kOff, config_space({}));
  EXPECT_TRUE(findings().empty());
}

TEST_F(AcsFindings, UnreadableRegisters_AreReportedAsUnknown) {
  add_switch(1, kOn.substr(0, 64), kOff);
  Logged logged = findings();
  EXPECT_THAT(logged.warnings, IsEmpty());
  EXPECT_THAT(logged.infos, ElementsAre(HasSubstr("unknown: that takes CAP_SYS_ADMIN")));
}

TEST_F(AcsFindings, NoGpuDirectOrMachineOfAFile_IsNotReported) {
  add_switch(1, kOn, kOn);
  EXPECT_THAT(findings({{"NCCL_NET_GDR_LEVEL", "LOC"}}).warnings, IsEmpty());
  EXPECT_THAT(findings({{"NCCL_NET_GDR_LEVEL", "PIX"}}).warnings, SizeIs(1));
  nccl_file_ = true;
  EXPECT_THAT(findings({{"NCCL_NET_GDR_LEVEL", "PIX"}}).warnings, IsEmpty());
}

TEST_F(AcsFindings, NoSharedSwitch_IsNotReported) {
  function("pci0000:00/0000:00:01.0", "0x060400");
  function("pci0000:00/0000:00:02.0", "0x060400");
  write("devices/pci0000:00/0000:00:01.0/config", kOn);
  write("devices/pci0000:00/0000:00:02.0/config", kOn);
  write(function("pci0000:00/0000:00:01.0/0000:01:00.0", "0x030200") / "vendor", "0x10de\n");
  hca("mlx5_0", function("pci0000:00/0000:00:02.0/0000:02:00.0", "0x020700"));
  EXPECT_TRUE(findings({{"NCCL_NET_GDR_LEVEL", "SYS"}}).empty());
}

TEST_F(AcsFindings, ManyPairs_AreListedUpToALimitAndCounted) {
  for (int bus = 1; bus <= 11; ++bus) add_switch(bus, kOn, kOn);
  Logged logged = findings();
  ASSERT_THAT(logged.warnings, SizeIs(9));
  EXPECT_THAT(logged.warnings[7], HasSubstr("GPU7 and mlx5_8: "));
  EXPECT_EQ(logged.warnings[8], "ACS redirects peer-to-peer traffic between 3 more pairs");
}

}  // namespace
}  // namespace gdr::topology
