#include "tools/perf/comparison_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace gdr::tools {
namespace {
using nlohmann::json;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// A report of sendrecv over the sizes 0 and 8.
json sendrecv(double mib_s, double us, uint64_t wrong = 0) {
  return {{"tool", "sendrecv"},
          {"bandwidth",
           {{{"bytes", 0}, {"average_mib_s", 0.0}, {"peak_mib_s", 0.0}},
            {{"bytes", 8}, {"average_mib_s", mib_s}, {"peak_mib_s", 9e9}}}},
          {"latency",
           {{{"bytes", 0}, {"typical_us", us / 2}, {"min_us", 0.0}},
            {{"bytes", 8}, {"typical_us", us}, {"min_us", 0.0}}}},
          {"checked", true},
          {"verified", 100},
          {"wrong", wrong}};
}

json all_reduce(double out_of_place, double in_place) {
  return {{"tool", "all_reduce"},
          {"ranks", {{{"rank", 0}}, {{"rank", 1}}}},
          {"results",
           {{{"bytes", 1024},
             {"out_of_place", {{"busbw_gb_s", out_of_place}}},
             {"in_place", {{"busbw_gb_s", in_place}}}}}},
          {"checked", true},
          {"wrong", 0}};
}

std::vector<ComparedRound> three_rounds() {
  return {{sendrecv(200, 4), sendrecv(100, 5)},
          {sendrecv(1, 900), sendrecv(106, 6)},
          {sendrecv(210, 3), sendrecv(900, 1)}};
}

TEST(ComparedTable, Rounds_GiveTheMedianOfEachSide) {
  ComparedTable table = compare_rounds(three_rounds());
  ASSERT_EQ(table.rows.size(), 2u);
  const ComparedRow& row = table.rows[1];
  EXPECT_EQ(row.bytes, 8u);
  ASSERT_EQ(row.figures.size(), 2u);
  EXPECT_EQ(row.figures[0].first, 200);
  EXPECT_EQ(row.figures[0].second, 106);
  EXPECT_EQ(row.figures[1].first, 4);
  EXPECT_EQ(row.figures[1].second, 5);
}

TEST(ComparedTable, Ratio_IsSecondToFirst) {
  ComparedTable table = compare_rounds(three_rounds());
  EXPECT_EQ(words(format_row(table.rows[1])),
            (std::vector<std::string>{"8", "200.00", "106.00", "0.53", "4.00", "5.00", "1.25"}));
  json row = to_json(table)[1];
  EXPECT_EQ(row["bytes"], 8);
  EXPECT_EQ(row["average_mib_s"], (json{{"first", 200.0}, {"second", 106.0}, {"ratio", 0.53}}));
  EXPECT_EQ(row["typical_us"], (json{{"first", 4.0}, {"second", 5.0}, {"ratio", 1.25}}));
}

TEST(ComparedTable, FirstIsZero_ThereIsNoRatio) {
  ComparedTable table = compare_rounds(three_rounds());
  EXPECT_EQ(words(format_row(table.rows[0])),
            (std::vector<std::string>{"0", "0.00", "0.00", "-", "2.00", "2.50", "1.25"}));
  EXPECT_TRUE(to_json(table)[0]["average_mib_s"]["ratio"].is_null());
}

TEST(ComparedTable, NotMeasured_HasNoColumns) {
  ComparedRound round{sendrecv(200, 4), sendrecv(100, 5)};
  round.first["bandwidth"] = round.second["bandwidth"] = json::array();
  ComparedTable table = compare_rounds({round});
  EXPECT_EQ(words(format_row(table.rows[1])),
            (std::vector<std::string>{"8", "4.00", "5.00", "1.25"}));
  EXPECT_THAT(comparison_header(table), testing::Not(testing::HasSubstr("MiB")));
  EXPECT_FALSE(to_json(table)[1].contains("average_mib_s"));
}

TEST(ComparedTable, HeaderAndRow_LineUp) {
  ComparedTable table = compare_rounds(three_rounds());
  std::string header = comparison_header(table);
  std::string titles = header.substr(0, header.find('\n'));
  std::string columns = header.substr(titles.size() + 1);
  EXPECT_EQ(titles.front(), '#');
  EXPECT_EQ(titles.size(), columns.size());
  EXPECT_EQ(columns.size(), format_row(table.rows[1]).size());
  EXPECT_THAT(titles, testing::ContainsRegex("BW average\\[MiB/sec\\] +t_typical\\[usec\\]$"));
}

TEST(ComparedTable, AllReduce_ComparesBothBusBandwidths) {
  ComparedTable table = compare_rounds({{all_reduce(10, 20), all_reduce(5, 30)}});
  EXPECT_EQ(words(format_row(table.rows.at(0))),
            (std::vector<std::string>{"1024", "10.00", "5.00", "0.50", "20.00", "30.00", "1.50"}));
  EXPECT_EQ(to_json(table)[0]["in_place_busbw_gb_s"]["ratio"], 1.5);
}

TEST(VerifiedLine, Sendrecv_CountsAllRounds) {
  std::vector<ComparedRound> rounds = three_rounds();
  EXPECT_EQ(verified_line(rounds), "# 600 messages verified: 0 wrong");
  rounds[1].second = sendrecv(1, 1, 7);
  rounds[2].first = sendrecv(1, 1, 2);
  EXPECT_EQ(verified_line(rounds), "# 600 messages verified: 9 wrong");
}

TEST(VerifiedLine, AllReduce_NamesItsExtent) {
  EXPECT_EQ(verified_line({{all_reduce(1, 1), all_reduce(1, 1)}}),
            "# 2 ranks, 1 sizes, 1 rounds of each side: 0 wrong");
}

TEST(VerifiedLine, NotChecked_SaysSo) {
  std::vector<ComparedRound> rounds = three_rounds();
  rounds[0].first["checked"] = false;
  EXPECT_EQ(verified_line(rounds), "# nothing verified (--no-check)");
}
}  // namespace
}  // namespace gdr::tools
