#include "plugin/reported_path.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/sources/made_sysfs.h"

namespace gdr::plugin {
namespace {

class MergedPath : public topology::MadeSysfs {
 protected:
  // A function of a network controller of that vendor.
  std::string nic(const std::string& bdf, const std::string& vendor = "0x15b3",
                  const std::string& pci_class = "0x020700") {
    auto function = device("pci0000:3a/" + bdf, "pci");
    write(function / "vendor", vendor + "\n");
    write(function / "class", pci_class + "\n");
    return absolute(function);
  }
};

TEST_F(MergedPath, FunctionsOfACard_BecomeItsFirst) {
  std::string first = nic("0000:3b:00.0"), second = nic("0000:3b:00.1"), far = nic("0000:3b:02.5");
  EXPECT_EQ(merged_path(second, true), first);
  EXPECT_EQ(merged_path(far, true), first);
  EXPECT_EQ(merged_path(second, false), first);
  EXPECT_EQ(merged_path(far, false), far);  // there is no function 02.0
}

TEST_F(MergedPath, FirstFunctionOfAnotherKind_IsNotUsed) {
  nic("0000:3b:00.0", "0x10de", "0x030200");  // a GPU at the head of a virtual machine's bus
  std::string second = nic("0000:3b:01.0");
  EXPECT_EQ(merged_path(second, true), second);
}

TEST_F(MergedPath, FirstFunctionOfAnotherVendor_IsNotUsed) {
  nic("0000:3b:00.0", "0x8086");
  std::string second = nic("0000:3b:01.0");
  EXPECT_EQ(merged_path(second, true), second);
}

// A virtual machine may have been given the virtual function alone.
TEST_F(MergedPath, NoFirstFunction_IsUnchanged) {
  std::string function = nic("0000:3b:00.2");
  EXPECT_EQ(merged_path(function, true), function);
}

TEST_F(MergedPath, PathOfNoPciFunction_IsUnchanged) {
  EXPECT_EQ(merged_path("", true), "");
  EXPECT_EQ(merged_path("/sys/devices/platform/x", true), "/sys/devices/platform/x");
}

TEST_F(MergedPath, FunctionThatTheTopologyFileLists_IsReportedAsItself) {
  std::string first = nic("0000:3b:00.0"), second = nic("0000:3b:00.1");
  topology::PciLocation place{second, *topology::Bdf::parse("0000:3b:00.1"), 0};
  EXPECT_EQ(reported_path(place, {}, true), first);
  EXPECT_EQ(reported_path(place, {place.bdf}, true), second);
}

}  // namespace
}  // namespace gdr::plugin
