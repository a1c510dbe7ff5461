#include "tools/perf/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace gdr::tools {
namespace {
using testing::ElementsAre;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

TEST(Columns, Rows_HaveTheFieldsOfPerftestAndNcclTests) {
  const BandwidthRow bandwidth{1 << 20, 5000, 13500.126, 13000.5, 0.0130005};
  EXPECT_THAT(words(format_row(bandwidth)),
              ElementsAre("1048576", "5000", "13500.13", "13000.50", "0.013000"));
  EXPECT_EQ(bandwidth_header(),
            " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]");
  const LatencyRow latency{8, 1000, {1.1, 9.9, 1.5, 1.6, 0.25, 2.5, 8}};
  EXPECT_THAT(words(format_row(latency)),
              ElementsAre("8", "1000", "1.10", "9.90", "1.50", "1.60", "0.25", "2.50", "8.00"));
  AllReduceRow sums{1000000, 250000, "float32", 4, {100, 0, true}, {200, 3, true}};
  EXPECT_THAT(words(format_row(sums)),
              ElementsAre("1000000", "250000", "float32", "sum", "-1", "100.00", "10.00", "15.00",
                          "0", "200.00", "5.00", "7.50", "3"));
  sums.out_of_place.checked = false;
  EXPECT_EQ(words(format_row(sums))[8], "N/A");
}

TEST(AllReduceColumns, HeaderAndRow_LineUp) {
  std::string header = all_reduce_header();
  std::string titles = header.substr(header.rfind("\n#", header.rfind("\n#") - 1) + 1);
  titles = titles.substr(0, titles.find('\n'));
  AllReduceRow row{67108864, 16777216, "float32", 4, {100, 0, true}, {200, 0, true}};
  EXPECT_EQ(titles.size(), format_row(row).size());
}

TEST(Bandwidth, RingOfFour_CarriesOneAndAHalfTimesTheData) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(1000000, 100), 10);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000000, 100, 4), 15);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1000000, 0, 4), 0);
}
}  // namespace
}  // namespace gdr::tools
