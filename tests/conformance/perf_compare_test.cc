// nccl-gdr perf --compare over the plugin on the software HCA, with the fake CUDA driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/conformance/run_tool.h"

namespace gdr::reference {
namespace {
using nlohmann::json;
using testing::HasSubstr;

ToolRun compare(const std::string& with, const std::vector<std::string>& more,
                const std::vector<std::string>& env = {}) {
  std::vector<std::string> args{"perf", "sendrecv", "--plugin",  TEST_PLUGIN,
                                "-n",   "20",       "--compare", with};
  args.insert(args.end(), more.begin(), more.end());
  return run_tool(args, env);
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PerfCompare, Staging_RunsTheSecondSideThroughHostMemory) {
  ToolRun run = compare("staging", {"--memory", "cuda", "-b", "0", "-e", "1M", "-f", "16",
                                    "--compare-rounds", "2", "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  json report = json::parse(run.out);
  EXPECT_EQ(report["wrong"], 0);
  EXPECT_TRUE(report["compare"]["first"]["GDR_NCCL_GPU_MEMORY"].is_null());
  EXPECT_EQ(report["compare"]["second"]["GDR_NCCL_GPU_MEMORY"], "staging");
  ASSERT_EQ(report["rounds"].size(), 2u);
  uint64_t verified = 0;
  for (const json& round : report["rounds"]) {
    EXPECT_EQ(round["first"]["ranks"][0]["registered_by"], "dma-buf");
    EXPECT_EQ(round["second"]["ranks"][0]["registered_by"], "device address");
    for (const char* side : {"first", "second"}) {
      EXPECT_EQ(round[side]["bandwidth"].size(), 7u);
      verified += round[side]["verified"].get<uint64_t>();
    }
  }
  EXPECT_EQ(report["verified"], verified);
  ASSERT_EQ(report["medians"].size(), 7u);
  EXPECT_EQ(report["medians"][6]["bytes"], 1 << 20);
  EXPECT_GT(report["medians"][6]["average_mib_s"]["ratio"], 0);
  EXPECT_GT(report["medians"][6]["typical_us"]["ratio"], 0);
}

TEST(PerfCompare, Table_IsOneWithTheHeadOfTheFirstRound) {
  ToolRun run = compare("NCCL_IB_QPS_PER_CONNECTION=2", {"-e", "64", "-f", "8"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(
      run.out.starts_with("# first: as it is; second: NCCL_IB_QPS_PER_CONNECTION=2\n# plugin GDR "))
      << run.out;
  EXPECT_EQ(count(run.out, "# plugin GDR "), 2) << run.out;  // one for each side
  EXPECT_EQ(count(run.out, "#bytes"), 1) << run.out;
  EXPECT_THAT(run.out, HasSubstr("# medians of 3 rounds of each; ratio: second / first\n"));
  EXPECT_THAT(run.out, testing::ContainsRegex("\n 64 ( +[0-9]+\\.[0-9][0-9]){6}\n# [0-9]+ messages "
                                              "verified: 0 wrong\n$"));
}

// The plugin of every rank warns of a value that it cannot use: its letter, in order of time.
std::string warned_of(const std::string& err) {
  const std::string words = "NCCL_IB_QPS_PER_CONNECTION is \"";
  std::string letters;
  for (size_t at = 0; (at = err.find(words, at)) != std::string::npos;) {
    at += words.size();
    letters += err.at(at);
  }
  return letters;
}

TEST(PerfCompare, Variable_IsInTheSecondSidesRanksInAlternatingOrder) {
  ToolRun run = compare("NCCL_IB_QPS_PER_CONNECTION=s", {"-e", "8", "--test", "lat"},
                        {"NCCL_DEBUG=WARN", "NCCL_IB_QPS_PER_CONNECTION=f"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("# first: as it is, NCCL_IB_QPS_PER_CONNECTION=f; second: "
                                 "NCCL_IB_QPS_PER_CONNECTION=s\n"));
  EXPECT_EQ(warned_of(run.err), "ffssssffffss") << run.err;
}

TEST(PerfCompare, Json_IsWrittenBesideTheTable) {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("compare." + std::to_string(getpid()) + ".json");
  ToolRun run = compare("NCCL_IB_QPS_PER_CONNECTION=2",
                        {"-e", "8", "--test", "bw", "--no-check", "--json", file.string()});
  std::ifstream in(file);
  json report = json::parse(in, nullptr, false);
  std::filesystem::remove(file);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.out.ends_with("\n# nothing verified (--no-check)\n")) << run.out;
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["rounds"].size(), 3u);
  EXPECT_FALSE(report["medians"][0].contains("typical_us"));
}

TEST(PerfCompare, WrongData_IsCountedOverAllRoundsAndFails) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", REFERENCE_PLUGIN, "-b", "8M", "-e", "8M",
                          "--test", "bw", "-n", "2", "--compare-rounds", "2", "--compare",
                          "REFERENCE_PLUGIN_DEFECT=corrupts_large"});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, testing::ContainsRegex("\n 8388608 "));
  EXPECT_THAT(run.out, testing::ContainsRegex("# [0-9]+ messages verified: [1-9][0-9]* wrong\n$"));
}

TEST(PerfCompare, SideThatCannotRun_EndsWithItsReason) {
  ToolRun run = compare("NCCL_IB_DISABLE=1", {"-e", "8"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("offers no device"));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("medians")));
}

TEST(PerfCompare, AllReduce_ComparesBusBandwidths) {
  ToolRun run = run_tool({"perf", "all_reduce", "--plugin", TEST_PLUGIN, "--ranks", "2", "-e", "1K",
                          "-f", "16", "-n", "2", "--compare-rounds", "1", "--compare",
                          "NCCL_IB_QPS_PER_CONNECTION=2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("busbw(GB/s)"));
  EXPECT_TRUE(run.out.ends_with("# 2 ranks, 2 sizes, 1 rounds of each side: 0 wrong\n")) << run.out;
}

TEST(PerfCompare, WhatCannotBeCompared_IsAUsageError) {
  auto refused = [](const std::string& with, const std::vector<std::string>& more) {
    ToolRun run = compare(with, more);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_THAT(refused("A=1", {"--osu"}), HasSubstr("leave out --osu"));
  EXPECT_THAT(refused("A=1", {"--root", "127.0.0.1:29500", "--rank", "0"}),
              HasSubstr("leave out --root"));
  EXPECT_THAT(refused("staging", {"--memory", "host"}), HasSubstr("add --memory cuda"));
  EXPECT_THAT(refused("NAME", {}),
              HasSubstr("--compare: \"NAME\" is neither staging nor NAME=VALUE"));
  refused("=1", {});
  refused("A=1", {"--compare-rounds", "0"});
  EXPECT_EQ(run_tool({"perf", "sendrecv", "--compare-rounds", "2"}).exit_code, 2);
}
}  // namespace
}  // namespace gdr::reference
