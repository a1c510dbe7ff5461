// nccl-gdr perf sendrecv --osu, parsed like OSU's output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/conformance/run_tool.h"

namespace gdr::reference {
namespace {
using testing::HasSubstr;

struct OsuRow {
  size_t bytes;
  double value;
};

// The rows of one table: all lines but comments.
std::vector<OsuRow> rows(const std::string& out) {
  std::vector<OsuRow> rows;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    OsuRow row{};
    std::string rest;
    EXPECT_TRUE(fields >> row.bytes >> row.value) << line;
    EXPECT_FALSE(fields >> rest) << line;
    rows.push_back(row);
  }
  return rows;
}

TEST(PerfOsu, BandwidthByDefault_RunsOsusSizes) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", REFERENCE_PLUGIN, "--osu", "--test", "bw",
                          "-n", "2", "-w", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\n# Size      Bandwidth (MB/s)\n1         "));
  std::vector<OsuRow> table = rows(run.out);
  ASSERT_EQ(table.size(), 23u) << run.out;
  EXPECT_EQ(table.front().bytes, 1u);
  EXPECT_EQ(table.back().bytes, size_t{4} << 20);
  EXPECT_GT(table.back().value, 0);
}

TEST(PerfOsu, LatencyAndSizesAskedFor_AreTaken) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", REFERENCE_PLUGIN, "--osu", "--test",
                          "lat", "-b", "4", "-e", "64", "-f", "4", "-n", "10"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\n# Size          Latency (us)\n4         "));
  std::vector<OsuRow> table = rows(run.out);
  ASSERT_EQ(table.size(), 3u) << run.out;
  EXPECT_EQ(table[2].bytes, 64u);
}

TEST(PerfOsu, Json_IsAsWithout) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", REFERENCE_PLUGIN, "--osu", "-b", "8",
                          "-e", "16", "-n", "2", "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  nlohmann::json report = nlohmann::json::parse(run.out);
  EXPECT_GT(report["bandwidth"][1]["average_mib_s"], 0);
  EXPECT_GT(report["latency"][1]["typical_us"], 0);
}
}  // namespace
}  // namespace gdr::reference
