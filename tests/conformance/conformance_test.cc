// nccl-gdr conformance on the reference plugin: the correct plugin passes, and each defect fails
// the case of the clause that it violates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/conformance/run_tool.h"

namespace gdr::reference {
namespace {
using nlohmann::json;
using testing::HasSubstr;

class EveryTable : public testing::TestWithParam<const char*> {};

// The groups of cases of what a version does not have, without the largest messages: a machine that
// is slow or short of memory skips those, too.
std::set<std::string> lacking(int version) {
  std::set<std::string> cases;
  if (version < 9) cases.insert({"C07", "C09", "C29", "C35"});
  if (version < 10) cases.insert({"C64", "C70"});
  if (version < 11) cases.insert({"C60", "C61", "C62", "C65"});
  return cases;
}

// Peers that die and messages of gigabytes take most of the time: the newest version has them.
TEST_P(EveryTable, CorrectPlugin_PassesEveryCaseThatTheVersionHas) {
  const bool takes_all = GetParam() == std::string("12");
  ToolRun run = run_tool({"conformance", "--plugin", REFERENCE_PLUGIN, "--table", GetParam(),
                          "--filter", takes_all ? "*" : "!(C5[2-7]*|C8*)", "--json", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  json report = json::parse(run.out);
  std::set<std::string> skipped;
  for (const json& one : report["cases"]) {
    const std::string id = one["id"].get<std::string>().substr(0, 3);
    if (one["result"] == "skip" && !id.starts_with("C8")) skipped.insert(id);
  }
  EXPECT_EQ(report["failed"], 0) << run.out;
  EXPECT_EQ(skipped, lacking(std::stoi(GetParam()))) << run.out;
}

std::string table_name(const testing::TestParamInfo<const char*>& info) {
  return std::string("v") + info.param;
}

INSTANTIATE_TEST_SUITE_P(Conformance, EveryTable,
                         testing::Values("6", "7", "8", "9", "10", "11", "12"), table_name);

TEST(ConformanceTable, Newest_IsTheDefault) {
  const ToolRun run =
      run_tool({"conformance", "--plugin", REFERENCE_PLUGIN, "--filter", "C03*", "--json", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["table"], 12);
}

TEST(ConformanceTable, All_RunsEachVersionAndSumsUp) {
  ToolRun run = run_tool(
      {"conformance", "--plugin", OLD_REFERENCE_PLUGIN, "--table", "all", "--filter", "C0[134]*"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  for (const char* heading : {"table v8 (NCCL from 2.20)\n", "table v7 (NCCL from 2.19)\n",
                              "table v6 (NCCL from 2.13)\n", "3 passed, 0 failed, 0 skipped\n"}) {
    EXPECT_THAT(run.out, HasSubstr(heading));
  }
  EXPECT_TRUE(run.out.ends_with("3 tables: 9 passed, 0 failed, 0 skipped\n")) << run.out;
}

TEST(ConformanceTable, All_IsAListAsJsonAndFailsWhereOneVersionFails) {
  // Eight requests are enough for v6 and too few for v7 and v8.
  ToolRun run = run_tool({"conformance", "--plugin", OLD_REFERENCE_PLUGIN, "--table", "all",
                          "--filter", "C30*", "--timeout", "2", "--json", "-"},
                         {"REFERENCE_PLUGIN_DEFECT=few_requests"});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  json reports = json::parse(run.out);
  ASSERT_EQ(reports.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reports[i]["table"], 8 - i);
    EXPECT_EQ(reports[i]["failed"], i < 2 ? 1 : 0) << reports[i];
    EXPECT_EQ(reports[i]["cases"].size(), 1u);
  }
}

TEST(ConformanceTable, MissingVersion_IsAnErrorThatListsTheOthers) {
  ToolRun run = run_tool({"conformance", "--plugin", OLD_REFERENCE_PLUGIN, "--table", "11"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("exports no ncclNetPlugin_v11; it has the versions 8, 7, 6"));
  run = run_tool({"conformance", "--table", "13"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("\"13\" is not a version: use newest or 6 to 12, or all"));
}

TEST(Conformance, OtherSeeds_PassToo) {
  for (const char* seed : {"2", "77", "123456789"}) {
    ToolRun run = run_tool(
        {"conformance", "--plugin", REFERENCE_PLUGIN, "--filter", "C[23]*", "--seed", seed});
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  }
}

TEST(Conformance, List_HasTheCasesThatTheFilterTakes) {
  auto list = [](const char* filter) {
    return run_tool({"conformance", "--list", "--filter", filter});
  };
  EXPECT_EQ(list("C9*").exit_code, 2);
  const ToolRun run = list("@(C57|C0[34])*");
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 3) << run.out;
  EXPECT_THAT(run.out, HasSubstr("C57-death-while-accepting          a listener killed before"));
}

TEST(Conformance, UnusableArguments_GiveTheirExitCodes) {
  const std::pair<Words, int> rows[] = {{{"--filter", "nothing"}, 2},
                                        {{"--root", "no port", "--rank", "0"}, 2},
                                        {{"--root", "127.0.0.1:7100"}, 2},
                                        {{"--seed", "-1"}, 2},
                                        {{"--plugin", REFERENCE_PLUGIN, "--dev", "99"}, 2},
                                        {{"--plugin", REFERENCE_PLUGIN, "--json", "/no/x"}, 3},
                                        {{"--root", "127.0.0.1:7100", "--rank", "2"}, 2}};
  for (auto [words, code] : rows) {
    words.insert(words.begin(), "conformance");
    EXPECT_EQ(run_tool(words).exit_code, code) << testing::PrintToString(words);
  }
}

TEST(Conformance, TwoMachines_RunTheCasesOfTwoProcessesOverOnePort) {
  const auto [first, second] =
      run_two_ranks({"conformance", "--plugin", REFERENCE_PLUGIN, "--filter", "C1[126]*"}, {}, {});
  for (const ToolRun& run : {first, second}) {
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_THAT(run.out, HasSubstr("2 passed, 0 failed, 0 skipped"));
    EXPECT_EQ(run.out.find("C16-same-process"), std::string::npos);
  }
}

struct Defect {
  const char* name;
  const char* caught_by;
  const char* seen;  // a part of the report
};

void PrintTo(const Defect& defect, std::ostream* out) { *out << defect.name; }

class EveryDefect : public testing::TestWithParam<std::tuple<Defect, const char*>> {};

TEST_P(EveryDefect, Suite_FailsTheCaseOfItsClause) {
  auto [defect, table] = GetParam();
  ToolRun run =
      run_tool({"conformance", "--plugin", REFERENCE_PLUGIN, "--table", table, "--filter",
                defect.caught_by, "--timeout", "4", "--peer-death-timeout", "3", "--json", "-"},
               {std::string("REFERENCE_PLUGIN_DEFECT=") + defect.name});
  json report = json::parse(run.out);
  ASSERT_EQ(report["cases"].size(), 1u);
  if (std::string_view(defect.caught_by).starts_with("C8") &&
      report["cases"][0]["result"] == "skip") {
    GTEST_SKIP() << report["cases"][0]["seen"];  // for want of speed or memory
  }
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(report["cases"][0]["result"], "FAIL");
  EXPECT_THAT(report["cases"][0]["seen"].get<std::string>(), HasSubstr(defect.seen));
}

constexpr Defect kDefects[] = {
    {"not_again", "C02-init-again", "init returned"},
    {"no_speed", "C03-devices", "speed 0"},
    {"crashes_on_bad_device", "C04-bad-device", "crash"},
    {"logs_badly", "C05-log-lines", "while inside init()"},
    {"no_p2p_bytes", "C06-properties-of-version", "maxP2pBytes 0"},
    {"bad_rail", "C06-properties-of-version", "railId -2"},
    {"merges_anything", "C07-virtual-devices", "makeVDevice of no devices succeeded"},
    {"merges_under_old_name", "C07-virtual-devices", "has the name"},
    {"merges_without_index", "C07-virtual-devices", "returned index 0"},
    {"leaves_thread", "C08-unload-and-reload", "crash"},
    {"long_handle", "C10-listen", "past the 128 bytes"},
    {"blocking_connect", "C11-connect-never-blocks", "connect took"},
    {"blocking_accept", "C12-accept-never-blocks", "accept took"},
    {"hangs_in_test", "C16-same-process", "hang: rank 0 was inside test()"},
    {"leaks_descriptors", "C19-descriptors", "file descriptors"},
    {"corrupts_large", "C20-sizes", "is wrong"},
    {"loses_empty", "C20-sizes", "gave up waiting"},
    {"wrong_size", "C21-larger-buffer", "reported size"},
    {"writes_past_end", "C21-larger-buffer", "was overwritten"},
    {"needs_sizes", "C22-null-sizes", "crash"},
    {"drops_tag", "C24-grouped-tags", ""},
    {"few_requests", "C30-request-limit", "irecv accepted only 8"},
    {"full_is_error", "C30-request-limit", "irecv returned"},
    {"leaves_request", "C32-request-overwritten", "0x1"},
    {"early_send_fails", "C33-early-send", "isend returned"},
    {"leaves_marker", "C35-optional-completion", "left 0x1"},
    {"forgets_optional", "C35-optional-completion", "gave up waiting"},
    {"takes_any_memory", "C42-bad-memory-type", "regMr accepted"},
    {"truncates", "C51-send-too-large", "both ends reported success"},
    {"ignores_death", "C52-death-before-receive", "still waiting"},
    {"ignores_death", "C53-death-with-receive-posted", "still waiting"},
    {"ignores_death", "C54-death-before-send", "still waiting"},
    {"ignores_death", "C55-death-while-sending", "still waiting"},
    {"ignores_death", "C56-death-while-connecting", "still waiting"},
    {"ignores_death", "C57-death-while-accepting", "still waits"},
    {"one_context", "C60-contexts", "the same context"},
    {"ends_all", "C61-end-one-communicator", "listen"},
    {"starts_once", "C62-start-again", "init returned"},
    {"is_bound_to_thread", "C63-communicators-in-threads", "listen returned"},
    {"refuses_class", "C64-traffic-class", "init returned"},
    {"needs_attributes", "C65-net-attributes", "setNetAttr returned"},
    {"wrong_phandle", "C70-profiler-events", "which no request has"},
    {"stops_twice", "C70-profiler-events", "stopped twice"},
    {"stops_null", "C70-profiler-events", "did not record"},
    {"never_stops", "C70-profiler-events", "were not stopped"},
#ifndef __SANITIZE_THREAD__
    {"corrupts_large", "C80-one-gibibyte", "is wrong"},
    {"negative_size", "C81-above-int-max", "reported size -"},
    {"wraps_size", "C82-above-uint-max", "is wrong"},
#endif
};

// Defects of calls whose arguments or limits differ between the versions of the table.
constexpr Defect kConvertedDefects[] = {
    {"not_again", "C02-init-again", "init returned"},
    {"no_speed", "C03-devices", "speed 0"},
    {"crashes_on_bad_device", "C04-bad-device", "crash"},
    {"long_handle", "C10-listen", "past the 128 bytes"},
    {"corrupts_large", "C20-sizes", "is wrong"},
    {"wrong_size", "C21-larger-buffer", "reported size"},
    {"full_is_error", "C30-request-limit", "irecv returned"},
    {"leaves_request", "C32-request-overwritten", "isend succeeded and did not overwrite"},
    {"takes_any_memory", "C42-bad-memory-type", "regMr accepted"},
    {"truncates", "C51-send-too-large", "both ends reported success"},
    {"logs_badly", "C05-log-lines", "inside init()"},
};

std::string defect_name(const testing::TestParamInfo<std::tuple<Defect, const char*>>& info) {
  auto [defect, table] = info.param;
  return std::string(defect.name) + "_" + std::string(defect.caught_by).substr(0, 3) + "_" + table;
}

INSTANTIATE_TEST_SUITE_P(Reference, EveryDefect,
                         testing::Combine(testing::ValuesIn(kDefects), testing::Values("newest")),
                         defect_name);
INSTANTIATE_TEST_SUITE_P(Converted, EveryDefect,
                         testing::Combine(testing::ValuesIn(kConvertedDefects),
                                          testing::Values("6")),
                         defect_name);
}  // namespace
}  // namespace gdr::reference
