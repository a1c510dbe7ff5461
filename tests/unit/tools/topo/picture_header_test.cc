#include "tools/topo/picture_header.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/unit/topology/machines.h"

namespace gdr::tools::topo {
namespace {

using ::testing::HasSubstr;
using topology::flat;
using topology::scene_of;
using topology::two_sockets_with_switches;

TEST(PictureHeader, Machine_HasSourceHostCpuReleaseLevelAndDate) {
  Machine machine = two_sockets_with_switches();
  machine.host = "node17";
  std::vector<std::string> lines = header_lines(scene_of(machine), "2026-11-22");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "Rails: made by hand");
  for (const char* part : {"host node17", "2 x GenuineIntel x86_64 family 6 model 143",
                           "8 GPUs (NVIDIA H100)", "5 HCAs"}) {
    EXPECT_THAT(lines[1], HasSubstr(part));
  }
  EXPECT_THAT(lines[2], HasSubstr("NCCL " + topology::nccl::kNewestRelease.to_string()));
  EXPECT_THAT(lines[2], HasSubstr("NCCL_NET_GDR_LEVEL unset"));
  EXPECT_THAT(lines[2], HasSubstr("2026-11-22"));
}

TEST(PictureHeader, LevelAndOneOfSeveralHosts_AreNamed) {
  Machine machine = flat(1, 1);
  machine.host = "0x12";
  machine.hosts = 18;
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kPxb;
  std::vector<std::string> lines = header_lines(scene_of(machine, settings), "");
  EXPECT_THAT(lines[1], HasSubstr("host 0x12 of 18"));
  EXPECT_THAT(lines[1], HasSubstr("CPU unknown"));
  EXPECT_THAT(lines[2], HasSubstr("NCCL_NET_GDR_LEVEL=PXB"));
}

TEST(PictureDate, SourceDateEpoch_IsTheDate) {
  ASSERT_EQ(setenv("SOURCE_DATE_EPOCH", "1000000000", 1), 0);
  EXPECT_EQ(picture_date(), "2001-09-09");
  ASSERT_EQ(unsetenv("SOURCE_DATE_EPOCH"), 0);
  EXPECT_THAT(picture_date(), ::testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}"));
}

}  // namespace
}  // namespace gdr::tools::topo
