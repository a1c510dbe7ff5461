#include "plugin/config/nccl_conf.h"

#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace gdr::config {
namespace {

using ::testing::ElementsAre;

TEST(NcclConf, Files_AreThoseOfNcclInItsOrder) {
  EXPECT_THAT(nccl_conf_files({}, "home"), ElementsAre("home/.nccl.conf", "/etc/nccl.conf"));
  EXPECT_THAT(nccl_conf_files({{"NCCL_CONF_FILE", "a"}}, "home"),
              ElementsAre("a", "/etc/nccl.conf"));
  EXPECT_THAT(nccl_conf_files({{"NCCL_CONF_FILE", ""}}, ""), ElementsAre("/etc/nccl.conf"));
}

class NcclConfFile : public ::testing::Test {
 protected:
  Environment read(const std::string& text, Environment environment = {}) {
    std::ofstream(file_, std::ios::binary) << text;
    add_nccl_conf(file_, &environment);
    return environment;
  }

  const TempFolder folder_;
  const std::string file_ = (folder_.path() / "nccl.conf").string();
};

TEST_F(NcclConfFile, Lines_AreReadAsNcclReadsThem) {
  EXPECT_EQ(
      read("# NCCL_IB_HCA=a\nNCCL_IB_HCA=mlx5_0,mlx5_1\r\nNCCL_IB_TC = 3\nnothing\nPATH=/x\n"
           "NCCL_IB_HCA=later\nGDR_NCCL_RAIL_MAP=0=1"),
      (Environment{
          {"GDR_NCCL_RAIL_MAP", "0=1"}, {"NCCL_IB_HCA", "mlx5_0,mlx5_1"}, {"NCCL_IB_TC ", " 3"}}));
}

TEST_F(NcclConfFile, VariableOfTheEnvironment_IsKept) {
  EXPECT_EQ(read("NCCL_IB_HCA=file\n", {{"NCCL_IB_HCA", ""}}), (Environment{{"NCCL_IB_HCA", ""}}));
}

TEST_F(NcclConfFile, Places_AreTheFirstLinesAlsoOfVariablesThatTheEnvironmentHas) {
  std::ofstream(file_, std::ios::binary) << "#\n\nNCCL_B=1\nNCCL_A=2\nNCCL_B=3\n";
  Environment environment = {{"NCCL_B", "0"}};
  ConfPlaces places;
  add_nccl_conf(file_, &environment, &places);
  EXPECT_EQ(places, (ConfPlaces{{"NCCL_A", {file_, 4}}, {"NCCL_B", {file_, 3}}}));
  EXPECT_EQ(environment.at("NCCL_B"), "0");
}

// A pipe, whose text ends as that of a file does.
TEST(NcclConf, FileThatIsMissingOrNotRegular_AddsNothing) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string line = "NCCL_NET_GDR_LEVEL=PIX\n";
  ASSERT_EQ(write(ends[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  close(ends[1]);
  Environment environment;
  add_nccl_conf("/nonexistent", &environment);
  add_nccl_conf("/proc/self/fd/" + std::to_string(ends[0]), &environment);
  close(ends[0]);
  EXPECT_TRUE(environment.empty());
}

}  // namespace
}  // namespace gdr::config
