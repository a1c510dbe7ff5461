#include "tools/topo/port_use.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gdr::tools::topo {
namespace {

namespace fs = std::filesystem;

// A folder like /sys with the second port of mlx5_0, which is down.
class PortUse : public ::testing::Test {
 protected:
  PortUse() : root_(fs::path(::testing::TempDir()) / ("port_use." + std::to_string(getpid()))) {
    fs::create_directories(port() / "gids");
    write("phys_state", "3: Disabled");
    write("lid", "0x0");
    write("gids/0", "fe80:0000:0000:0000:0ac0:ebff:fe12:3456");
    write("gids/1", "0000:0000:0000:0000:0000:0000:0000:0000");
  }
  ~PortUse() override { fs::remove_all(root_); }

  fs::path port() const { return root_ / "class/infiniband/mlx5_0/ports/2"; }
  void write(const std::string& file, const std::string& line) const {
    std::ofstream(port() / file) << line << "\n";
  }
  std::string sign() const { return sign_of_use(root_, "mlx5_0", 2); }

  fs::path root_;
};

TEST_F(PortUse, PortWithoutCableAndAddress_ShowsNothing) {
  EXPECT_EQ(sign(), "");
  write("phys_state", "2: Polling");
  write("lid", "0xffff");
  EXPECT_EQ(sign(), "");
  EXPECT_EQ(sign_of_use(root_, "mlx5_1", 2), "");
  EXPECT_EQ(sign_of_use("", "mlx5_0", 2), "");
}

TEST_F(PortUse, PhysicalLink_IsASign) {
  write("phys_state", "5: LinkUp");
  EXPECT_EQ(sign(), "its link is up physically, and not active");
}

TEST_F(PortUse, Lid_IsASign) {
  write("lid", "0x1a");
  EXPECT_EQ(sign(), "it has the LID 0x1a");
}

TEST_F(PortUse, Ipv4Address_IsASign) {
  write("gids/3", "0000:0000:0000:0000:0000:ffff:0a00:01ff");
  EXPECT_EQ(sign(), "it has the address 10.0.1.255");
  write("gids/3", "0000:0000:0000:0000:0000:ffff:0a00:xxff");
  EXPECT_EQ(sign(), "");
}

}  // namespace
}  // namespace gdr::tools::topo
