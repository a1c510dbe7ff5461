#include "topology/live/acs_notes.h"

#include <gmock/gmock.h>

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
    " through the CPU, which costs GPUDirect much of its bandwidth: switch ACS off in the "
    "firmware, or its redirect bits with setpci";
const std::string kOff = config_with_acs(0x11);
const std::string kOn = config_with_acs(0x1d);

class AcsNotes : public MadeSysfs {
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
  Notes notes(const config::Environment& environment = {}) {
    std::vector<config::Diagnostic> diagnostics;
    Machine machine = *sysfs_machine(root_);
    machine.nccl_file = nccl_file_;
    RailDecision view = decide(std::move(machine), config::load(environment, &diagnostics), {});
    note_acs(&view, root_);
    return view.notes;
  }

  bool nccl_file_ = false;
};

TEST_F(AcsNotes, RedirectOn_IsWarnedAboutForEachPair) {
  add_switch(1, kOn, kOff);
  add_switch(2, kOff, kOff);
  add_switch(3, kOn, kOn);
  Notes told = notes();
  EXPECT_THAT(
      told.warnings,
      ElementsAre(
          std::string("GPU0 and mlx5_1: ACS redirects peer-to-peer traffic at 0000:41:00.0") + kHow,
          std::string("GPU2 and mlx5_3: ACS redirects peer-to-peer traffic at 0000:43:00.0, "
                      "0000:43:01.0") +
              kHow));
  EXPECT_THAT(told.infos, IsEmpty());
}

TEST_F(AcsNotes, RedirectOff_IsNotTold) {
  add_switch(1, kOff, config_space({}));
  Notes told = notes();
  EXPECT_THAT(told.warnings, IsEmpty());
  EXPECT_THAT(told.infos, IsEmpty());
}

TEST_F(AcsNotes, Unreadable_IsUnknownNotOff) {
  add_switch(1, kOn.substr(0, 64), kOff);
  Notes told = notes();
  EXPECT_THAT(told.warnings, IsEmpty());
  EXPECT_THAT(told.infos, ElementsAre(HasSubstr("unknown: that takes CAP_SYS_ADMIN")));
}

TEST_F(AcsNotes, NoGpuDirect_IsNotTold) {
  add_switch(1, kOn, kOn);
  EXPECT_THAT(notes({{"NCCL_NET_GDR_LEVEL", "LOC"}}).warnings, IsEmpty());
  EXPECT_THAT(notes({{"NCCL_NET_GDR_LEVEL", "PIX"}}).warnings, SizeIs(1));
}

TEST_F(AcsNotes, NoSharedSwitch_IsNotTold) {
  function("pci0000:00/0000:00:01.0", "0x060400");
  function("pci0000:00/0000:00:02.0", "0x060400");
  write("devices/pci0000:00/0000:00:01.0/config", kOn);
  write("devices/pci0000:00/0000:00:02.0/config", kOn);
  write(function("pci0000:00/0000:00:01.0/0000:01:00.0", "0x030200") / "vendor", "0x10de\n");
  hca("mlx5_0", function("pci0000:00/0000:00:02.0/0000:02:00.0", "0x020700"));
  Notes told = notes({{"NCCL_NET_GDR_LEVEL", "SYS"}});
  EXPECT_THAT(told.warnings, IsEmpty());
  EXPECT_THAT(told.infos, IsEmpty());
}

TEST_F(AcsNotes, MachineOfAFile_IsNotLookedAt) {
  add_switch(1, kOn, kOn);
  nccl_file_ = true;
  EXPECT_THAT(notes().warnings, IsEmpty());
}

TEST_F(AcsNotes, ManyPairs_TheRestIsCounted) {
  for (int bus = 1; bus <= 11; ++bus) add_switch(bus, kOn, kOn);
  Notes told = notes();
  ASSERT_THAT(told.warnings, SizeIs(9));
  EXPECT_THAT(told.warnings[7], HasSubstr("GPU7 and mlx5_8: "));
  EXPECT_EQ(told.warnings[8], "ACS redirects as much between 3 more pairs");
}

}  // namespace
}  // namespace gdr::topology
