#include "tools/perf/osu_columns.h"

#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
const std::vector<MemoryPlace> kHosts{MemoryPlace{}};
const std::vector<MemoryPlace> kDeviceToHost{MemoryPlace{true, 0}, MemoryPlace{}};

std::string last_line(const std::string& text) { return text.substr(text.rfind('\n') + 1); }

TEST(OsuColumns, Titles_AreOsus) {
  EXPECT_EQ(last_line(osu_bandwidth_header(kHosts, 8)), "# Size      Bandwidth (MB/s)");
  EXPECT_EQ(last_line(osu_latency_header(kHosts)), "# Size          Latency (us)");
}

TEST(OsuColumns, EveryLineOfAHeader_IsAComment) {
  for (std::string header :
       {osu_bandwidth_header(kDeviceToHost, 8), osu_latency_header(kDeviceToHost)}) {
    EXPECT_EQ(header.front(), '#');
    for (size_t at = header.find('\n'); at != std::string::npos; at = header.find('\n', at + 1)) {
      EXPECT_EQ(header[at + 1], '#') << header;
    }
  }
}

TEST(OsuColumns, GpuMemory_IsNamedPerSide) {
  const char* line = "# Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)\n";
  EXPECT_NE(osu_latency_header(kDeviceToHost).find(line), std::string::npos);
  EXPECT_EQ(osu_latency_header(kHosts).find("Buffer on"), std::string::npos);
}

TEST(OsuColumns, BandwidthRow_CountsMillionsOfBytes) {
  BandwidthRow row{1 << 20, 5000, 2000, 1000, 0.001};
  EXPECT_EQ(osu_row(row), "1048576              1048.58");
}

TEST(OsuColumns, LatencyRow_IsTheAverage) {
  LatencyRow row{8, 1000, {1.1, 9.9, 1.5, 1.625, 0.25, 2.5, 8}};
  EXPECT_EQ(osu_row(row), "8                       1.62");
}
}  // namespace
}  // namespace gdr::tools
