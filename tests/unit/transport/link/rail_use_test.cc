#include "transport/link/rail_use.h"

#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"

namespace gdr::transport {
namespace {

TEST(RailUseTest, RailThatCarriesLittle_TextShowsItsShareAndLosses) {
  const std::vector<RailUse> rails{
      {.port = "a:1", .bytes = 900, .chunks = 9},
      {.port = "b:1", .bytes = 100, .chunks = 1, .losses = 2, .returns = 1}};
  EXPECT_EQ(to_string(rails),
            "a:1 900 bytes in 9 chunks (90 %), "
            "b:1 100 bytes in 1 chunk (10 %, 2 queue pairs lost, 1 returned)");
  EXPECT_EQ(bytes_text(rails), "a:1 900 (90 %), b:1 100 (10 %)");
  EXPECT_EQ(bytes_text({{.port = "a:1"}, {.port = "b:1"}}), "a:1 0 (0 %), b:1 0 (0 %)");
}

TEST(RailTotalsTest, LastConnectionCloses_OneLineForEachRailWithTheSums) {
  RecordedLog log;
  RailTotals totals;
  totals.open();
  totals.open();
  totals.close({{.port = "a:1", .bytes = 600, .chunks = 6}, {.port = "b:1", .bytes = 200}},
               /*sends=*/true);
  EXPECT_TRUE(log.lines().empty());
  totals.close({{.port = "b:1", .bytes = 50, .chunks = 1, .losses = 1, .returns = 1},
                {.port = "c:1", .bytes = 50, .chunks = 1}},
               /*sends=*/false);
  const std::vector<std::string> lines = log.lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "INFO NET/GDR : rail a:1: sent 600 bytes in 6 chunks (75 %), over 1 connection");
  EXPECT_EQ(lines[1],
            "INFO NET/GDR : rail b:1: sent 200 bytes in 0 chunks (25 %), received 50 bytes in 1 "
            "chunk (50 %), over 2 connections, 1 queue pair lost, 1 returned");
  EXPECT_NE(lines[2].find("rail c:1: "), std::string::npos);
}

TEST(RailTotalsTest, ConnectionsAfterwards_SumsBeginAnew) {
  RecordedLog log;
  RailTotals totals;
  totals.open();
  totals.close({{.port = "a:1"}, {.port = "b:1"}}, /*sends=*/true);
  EXPECT_TRUE(log.lines().empty()) << "nothing moved";
  for (int i = 0; i < 2; ++i) {
    totals.open();
    totals.close({{.port = "a:1", .bytes = 7, .chunks = 1}}, /*sends=*/true);
  }
  EXPECT_EQ(log.lines("rail a:1: sent 7 bytes in 1 chunk (100 %)").size(), 2u);
}

}  // namespace
}  // namespace gdr::transport
