// nccl-gdr perf over the plugin that the environment variable TEST_PLUGIN names: the reference
// plugin, or this tree's plugin over the software HCA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/conformance/run_tool.h"
#include "tests/fakes/temp_folder.h"

namespace gdr::reference {
namespace {
using nlohmann::json;
using testing::HasSubstr;

std::string plugin() { return std::getenv("TEST_PLUGIN"); }

// nccl-gdr perf on that plugin: sendrecv or all_reduce, with the words behind --plugin.
ToolRun perf(const std::string& kind, const Words& options, const Words& env = {}) {
  Words words = {"perf", kind, "--plugin", plugin()};
  words.insert(words.end(), options.begin(), options.end());
  return run_tool(words, env);
}

// Its report, from --json.
json report_of(const std::string& kind, Words options) {
  options.insert(options.end(), {"--json", "-"});
  const ToolRun run = perf(kind, options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.exit_code == 0 ? json::parse(run.out) : json{};
}

TEST(PerfSendrecv, SmallSweep_MovesAndVerifiesEverySize) {
  const json report = report_of("sendrecv", {"-b", "0", "-e", "1M", "-f", "16", "-n", "20"});
  EXPECT_EQ(report["wrong"], 0);
  EXPECT_GT(report["verified"], 0);
  ASSERT_EQ(report["bandwidth"].size(), 7u);
  ASSERT_EQ(report["latency"].size(), 7u);
  EXPECT_EQ(report["bandwidth"][6]["bytes"], 1 << 20);
  EXPECT_GT(report["bandwidth"][6]["average_mib_s"], 0);
  EXPECT_GT(report["latency"][0]["typical_us"], 0);
  EXPECT_EQ(report["ranks"].size(), 2u);
  EXPECT_EQ(report["plugin"]["table"], 12) << "the newest by default";
}

TEST(PerfSendrecv, Seconds_MeasuresForAboutSoLong) {
  const json report = report_of("sendrecv", {"-b", "8", "-e", "8", "--seconds", "0.2"});
  const json& stream = report["bandwidth"][0];
  EXPECT_GE(stream["iterations"].get<double>() / (stream["message_mpps"].get<double>() * 1e6), 0.1);
  const json& round_trips = report["latency"][0];
  EXPECT_GE(
      2e-6 * round_trips["iterations"].get<double>() * round_trips["average_us"].get<double>(),
      0.1);
}

TEST(PerfSendrecv, RanksHaveOtherOptions_BothEndWithTheFix) {
  const auto runs =
      run_two_ranks({"perf", "sendrecv", "--plugin", plugin(), "-e", "8", "--test", "bw"},
                    {"-n", "16"}, {"--seconds", "0.2"});
  for (const ToolRun& run : runs) {
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("Fix: start the same command on both machines")) << run.err;
  }
}

class PerfTable : public testing::TestWithParam<int> {};

TEST_P(PerfTable, Sendrecv_MovesVerifiedDataAndReportsTheVersion) {
  const json report = report_of("sendrecv", {"--table", std::to_string(GetParam()), "-b", "0", "-e",
                                             "1M", "-f", "64", "-n", "10"});
  EXPECT_EQ(report["plugin"]["table"], GetParam());
  EXPECT_GT(report["verified"], 0);
  EXPECT_EQ(report["wrong"], 0);
}

TEST_P(PerfTable, AllReduce_GivesTheRightSumsAndPrintsTheVersion) {
  std::string table = std::to_string(GetParam());
  ToolRun run =
      perf("all_reduce", {"--table", table, "--ranks", "3", "-e", "64K", "-f", "16", "-n", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("), table v" + table + "\n"));
  EXPECT_TRUE(run.out.ends_with(": 0 wrong\n")) << run.out;
}

INSTANTIATE_TEST_SUITE_P(Perf, PerfTable, testing::Values(6, 7, 8, 9, 10, 11, 12),
                         testing::PrintToStringParamName());

class EveryRing : public testing::TestWithParam<int> {};

TEST_P(EveryRing, OddSizes_GiveTheRightSumsEverywhere) {
  const json report =
      report_of("all_reduce", {"--ranks", std::to_string(GetParam()), "-b", "8", "-e", "1000000",
                               "-f", "5", "-n", "2", "-w", "1", "--slice", "16K"});
  EXPECT_EQ(report["wrong"], 0);
  ASSERT_EQ(report["results"].size(), 8u);
  for (const json& row : report["results"]) {
    EXPECT_GT(row["out_of_place"]["time_us"], 0);
    EXPECT_EQ(row["in_place"]["wrong"], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EveryRing, testing::Values(2, 3, 4),
                         testing::PrintToStringParamName());

// A run that succeeds, and texts that it prints.
struct Printed {
  const char* kind;
  Words options;
  std::vector<const char*> texts;
};

TEST(Perf, Table_HasTheColumnsTheDepthAndTheFooter) {
  const Printed rows[] = {
      {"sendrecv",
       {"-e", "64", "-n", "10", "--depth", "1"},
       {"BW average[MiB/sec]", "t_typical[usec]", "\n# depth 1: "}},
      {"sendrecv",
       {"--test", "bw", "-e", "8", "-n", "16", "--group", "8", "--depth", "2"},
       {"\n# depth 2, group 8: "}},
      {"all_reduce",
       {"-e", "1K", "-n", "2"},
       {"# Out of bounds values : 0 OK", "# Avg bus bandwidth    : "}},
      {"all_reduce", {"-e", "64K", "-n", "2", "--channels", "3", "--rails", "1,0"}, {"by channel"}},
  };
  for (const Printed& row : rows) {
    const ToolRun run = perf(row.kind, row.options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    for (const char* text : row.texts) EXPECT_THAT(run.out, HasSubstr(text));
    EXPECT_TRUE(run.out.ends_with(": 0 wrong\n")) << run.out;
  }
  const json report = report_of(
      "sendrecv", {"--test", "bw", "-e", "8", "-n", "16", "--group", "8", "--depth", "2"});
  EXPECT_EQ(report["group"], 8);
  EXPECT_EQ(report["depth"], 2);
}

TEST(PerfAllReduce, RanksStartedByHand_FindEachOther) {
  const auto [first, second] = run_two_ranks({"perf", "all_reduce", "--plugin", plugin(),
                                              "--nranks", "2", "-e", "64K", "-f", "8", "-n", "2"},
                                             {}, {});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_TRUE(first.out.ends_with(": 0 wrong\n")) << first.out;
}

// Runs all-reduces of two sizes until a file exists, which is made after the pause. Returns the
// rows.
json rows_until_stopped(std::chrono::milliseconds pause) {
  const TempFolder folder;
  const std::filesystem::path file = folder.path() / "until";
  std::thread stopping([&] {
    std::this_thread::sleep_for(pause);
    std::ofstream(file) << "stop";
  });
  const json report =
      report_of("all_reduce", {"--ranks", "2", "-b", "1K", "-e", "2K", "--until", file.string()});
  stopping.join();
  return report["results"];
}

TEST(PerfAllReduce, Until_RepeatsAllSizesUntilTheFileExists) {
  json rows;
  for (std::chrono::milliseconds pause{200}; rows.size() <= 2; pause *= 2) {
    ASSERT_LT(pause, std::chrono::minutes(1));
    rows = rows_until_stopped(pause);
  }
  EXPECT_EQ(rows.size() % 2, 0u);
  EXPECT_EQ(rows.back()["bytes"], 2048);
  EXPECT_GT(rows.back()["in_place"]["time_us"], 0);
}

// Returns the process of a rank, from the first lines that rank 0 prints; -1 before that.
pid_t find_rank(const std::string& table, int rank) {
  const std::string mark = "# rank  " + std::to_string(rank) + " pid ";
  const size_t at = table.find(mark);
  const bool complete = at != std::string::npos && table.find('\n', at) != std::string::npos;
  return complete ? std::stoi(table.substr(at + mark.size())) : -1;
}

TEST(PerfAllReduce, KilledRank_EndsTheRunWithItsName) {
  const RunningTool tool = start_tool(
      {"perf", "all_reduce", "--plugin", plugin(), "-b", "1M", "-e", "1M", "-n", "1000000"});
  pid_t victim = -1;
  while (victim < 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    victim = find_rank(contents(tool.out.get()), 2);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(victim, SIGKILL);
  const ToolRun run = wait_for(tool);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("rank 2 was killed by signal 9"));
}

struct Refused {
  Words words;
  int code;
  const char* text = "";
};

TEST(Perf, UnusableArguments_GiveTheirExitCodesAndWhatFits) {
  const Words old = {"perf", "sendrecv", "--plugin", OLD_REFERENCE_PLUGIN};
  auto with_old = [&](Words options) {
    options.insert(options.begin(), old.begin(), old.end());
    return options;
  };
  const Refused rows[] = {
#ifndef __SANITIZE_THREAD__  // there, the tool lacks the commands that have one thread
      {{"foo"}, 2, "not expected: foo. Fix: nccl-gdr --help lists the subcommands"},
      {{"topo", "--nccl-version", "FOO"}, 2, "--nccl-version: \"FOO\" cannot be used: "},
#endif
      {{"perf"}, 2, "Fix: nccl-gdr perf --help lists the subcommands"},
      {{"perf", "allreduce"}, 2, "not expected: allreduce. Fix: nccl-gdr perf --help lists"},
      {{"perf", "all_reduce", "-b", "64", "-e", "8"}, 2},
      {{"perf", "all_reduce", "--memory", "host,cuda:0"}, 2, "all_reduce_perf of nccl-tests"},
      {{"perf", "sendrecv", "--memory", "host,"}, 2, "--memory: "},
      {{"perf", "all_reduce", "-b", "1X"}, 2, "1X is not a size: give a number of bytes"},
      {{"perf", "all_reduce", "-b", "-1"}, 2, "-1 is not a size"},
      {{"perf", "all_reduce", "--plugin", plugin(), "--rails", "0,99"}, 2, "has devices 0.."},
      {{"perf", "all_reduce", "--rails", "-1"}, 2, "--rails: "},
      {{"perf", "all_reduce", "--rails", "x"}, 2, "--rails: \"x\" is not a whole number"},
      {{"perf", "all_reduce", "-n", "-1"}, 2, "--iters"},
      {{"perf", "all_reduce", "-f", "-1"}, 2, "--factor"},
      {{"perf", "all_reduce", "--seed", "-1"}, 2, "--seed"},
      {{"perf", "all_reduce", "--seed", "18446744073709551616"}, 2, "below 2^64"},
      {{"perf", "all_reduce", "--rails", "99999999999"}, 2, "--rails: 99999999999 is not a number"},
      {{"perf", "sendrecv", "-w", "99999999999"}, 2, "--warmup"},
      {{"perf", "sendrecv", "-n", "99999999"}, 2, "Fix: add --test bw"},
      {{"perf", "sendrecv", "--plugin", plugin(), "--json", "/no/x"}, 3, "nccl-gdr: cannot write"},
      {{"perf", "sendrecv", "--plugin", plugin(), "-e", "8", "--json", "/dev/full"}, 3, "No space"},
      {{"perf", "sendrecv", "--root", "no-port"}, 2},
      {{"perf", "sendrecv", "--rank", "1"}, 2, "--rank requires --root"},
      {{"perf", "sendrecv", "--plugin", plugin(), "--dev", "99"}, 2, "has devices 0.."},
      {{"perf", "sendrecv", "--group", "8"}, 2, "Fix: add --test bw"},
      {{"perf", "sendrecv", "--seconds", "1", "-n", "5"}, 2, "--iters excludes --seconds"},
      {{"perf", "sendrecv", "--seconds", "nan"}, 2, "--seconds"},
      {{"perf", "sendrecv", "--seconds", "inf"}, 2, "--seconds"},
      {{"perf", "sendrecv", "--seconds", "0"}, 2, "--seconds: \"0\" is not a number above 0"},
      {{"perf", "sendrecv", "--seconds", "-1"}, 2, "--seconds"},
      // What the version of the table lacks.
      {with_old({"--table", "9"}), 2, "exports no ncclNetPlugin_v9; it has the versions 8, 7, 6"},
      {with_old({"--table", "all"}), 2, "\"all\" is not a version: use newest or 6 to 12"},
      {with_old({"--table", "6", "--depth", "9"}), 2,
       "--depth 9: version 6 of the table has at most 8 req"},
      {with_old({"-e", "2G"}), 2,
       "messages of 2 GiB: version 8 of the table carries up to 1 GiB to device"},
  };
  for (const Refused& row : rows) {
    const ToolRun run = run_tool(row.words);
    EXPECT_EQ(run.exit_code, row.code) << testing::PrintToString(row.words);
    EXPECT_THAT(run.err, HasSubstr(row.text)) << testing::PrintToString(row.words);
  }
}

TEST(Perf, LoggerOn_PrintsLinesLikeNccls) {
  ToolRun run =
      perf("sendrecv", {"-e", "8", "-n", "2"}, {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,NET"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, testing::ContainsRegex(":[0-9]+:[0-9]+ \\[[0-9]+\\] NCCL INFO NET/"));
}
}  // namespace
}  // namespace gdr::reference
