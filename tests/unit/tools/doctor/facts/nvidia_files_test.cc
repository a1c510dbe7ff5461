#include "tools/doctor/facts/nvidia_files.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"

namespace gdr::tools::doctor {
namespace {

TEST(NvidiaFiles, VersionFileOfEitherFlavour_GivesVersionAndFlavour) {
  MadeHost made;
  made.write("/proc/driver/nvidia/version", kOpenModules);
  EXPECT_EQ(nvidia_module(made.host).version, "570.133.20");
  EXPECT_EQ(nvidia_module(made.host).is_open, true);
  made.write("/proc/driver/nvidia/version", kProprietaryModules);
  EXPECT_EQ(nvidia_module(made.host).version, "535.104.05");
  EXPECT_EQ(nvidia_module(made.host).is_open, false);
}

TEST(NvidiaFiles, SysfsAlone_GivesTheFlavourByTheTaint) {
  MadeHost made;
  made.write("/sys/module/nvidia/version", "570.133.20\n");
  EXPECT_EQ(nvidia_module(made.host).version, "570.133.20");
  EXPECT_EQ(nvidia_module(made.host).is_open, std::nullopt);
  made.write("/sys/module/nvidia/taint", "POE\n");
  EXPECT_EQ(nvidia_module(made.host).is_open, false);
  made.write("/sys/module/nvidia/taint", "OE\n");
  EXPECT_EQ(nvidia_module(made.host).is_open, true);
}

TEST(NvidiaFiles, OddVersionFile_IsLoadedOfUnknownVersion) {
  MadeHost made;
  made.write("/proc/driver/nvidia/version", std::string("\xff\0 . .. 1..", 11));
  EXPECT_TRUE(nvidia_module(made.host).is_loaded());
  EXPECT_EQ(nvidia_module(made.host).is_open, std::nullopt);
}

TEST(NvidiaFiles, Gpus_AreDisplayControllersOfNvidiaAndNoVirtualFunctions) {
  MadeHost made;
  EXPECT_EQ(nvidia_gpus(made.host), std::nullopt);
  add_nvidia_gpu(&made, "0000:3b:00.0", "nvidia");
  add_nvidia_gpu(&made, "0000:1a:00.0", "", "0x030000");
  add_nvidia_gpu(&made, "0000:1b:00.0", "nvidia-nvswitch", "0x068000");
  add_nvidia_gpu(&made, "0000:1a:00.4", "");
  made.link("/sys/bus/pci/devices/0000:1a:00.4/physfn", "/sys/bus/pci/devices/0000:1a:00.0");
  const auto gpus = nvidia_gpus(made.host);
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[0].bdf.to_string(), "0000:1a:00.0");
  EXPECT_EQ((*gpus)[0].driver, "");
  EXPECT_EQ((*gpus)[1].driver, "nvidia");
}

TEST(NvidiaFiles, CopyWithoutDriverLinks_KnowsNoDriver) {
  MadeHost made;
  add_nvidia_gpu(&made, "0000:1a:00.0", "");
  EXPECT_EQ(nvidia_gpus(made.host)->at(0).driver, std::nullopt);
}

}  // namespace
}  // namespace gdr::tools::doctor
