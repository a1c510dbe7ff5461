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

// A GPU at the head of a virtual machine's bus, another vendor's NIC, and a virtual machine that
// has been given the virtual function alone.
TEST_F(MergedPath, FirstFunctionOfAnotherKindOrVendorOrNone_IsNotUsed) {
  nic("0000:3b:00.0", "0x10de", "0x030200");
  nic("0000:3c:00.0", "0x8086");
  for (const char* bdf : {"0000:3b:01.0", "0000:3c:01.0", "0000:3d:00.2"}) {
    const std::string function = nic(bdf);
    EXPECT_EQ(merged_path(function, true), function);
  }
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
