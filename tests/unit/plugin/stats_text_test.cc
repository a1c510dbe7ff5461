#include "plugin/stats_text.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "tests/fakes/temp_folder.h"
#include "tests/metrics/page_check.h"

namespace gdr::plugin {
namespace {

using testing::IsSupersetOf;
using transport::RailName;
using transport::RailSums;

transport::TransportStats some_stats() {
  transport::TransportStats stats;
  RailSums rail;
  rail.sent = {uint64_t{1} << 60, 12};
  rail.received = {34, 5};
  rail.losses = 2;
  rail.returns = 1;
  stats.sums.rails[RailName{"mlx5_0", 2}] = rail;
  stats.sums.connections = 3;
  stats.sums.failed = 4;
  stats.sums.stalls = 6;
  stats.registrations["mlx5_0"].gpu = {14, 15};
  stats.registrations["mlx5_0"].host = 17;
  stats.registered_gpu_bytes["mlx5_0"] = 18;
  return stats;
}

// The values by name and labels, as the text has them.
std::map<std::string, double> series_of(const std::string& text) {
  std::map<std::string, double> series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) continue;
    const size_t space = line.rfind(' ');
    series[line.substr(0, space)] = std::stod(line.substr(space));
  }
  return series;
}

TEST(StatsTextTest, AllCounters_EachIsWhereItBelongs) {
  const std::string text = stats_text(some_stats(), 5);
  EXPECT_THAT(text, testing::HasSubstr("nccl_gdr_info{process=\"5\",pid=\"" +
                                       std::to_string(getpid()) + "\",version=\""));
  const auto series = series_of(text);
  const std::string rail = "{process=\"5\",device=\"mlx5_0\",port=\"2\"";
  const std::string hca = "{process=\"5\",device=\"mlx5_0\"";
  const std::map<std::string, double> expected{
      {"nccl_gdr_bytes_total" + rail + ",direction=\"sent\"}", 1152921504606846976.0},
      {"nccl_gdr_bytes_total" + rail + ",direction=\"received\"}", 34},
      {"nccl_gdr_messages_total" + rail + ",direction=\"sent\"}", 12},
      {"nccl_gdr_messages_total" + rail + ",direction=\"received\"}", 5},
      {"nccl_gdr_recoveries_total" + rail + "}", 2},
      {"nccl_gdr_returns_total" + rail + "}", 1},
      {"nccl_gdr_registrations_total" + hca + ",path=\"dmabuf\"}", 14},
      {"nccl_gdr_registrations_total" + hca + ",path=\"peermem\"}", 15},
      {"nccl_gdr_registrations_total" + hca + ",path=\"host\"}", 17},
      {"nccl_gdr_registered_gpu_bytes" + hca + "}", 18},
      {"nccl_gdr_stalls_total{process=\"5\"}", 6},
      {"nccl_gdr_failed_connections_total{process=\"5\"}", 4},
      {"nccl_gdr_connections{process=\"5\"}", 3}};
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(series.contains(name)) << name;
    EXPECT_EQ(series.at(name), value) << name;
  }
}

TEST(StatsTextTest, Collector_CanReadIt) {
  const TempFolder folder;
  for (const transport::TransportStats& stats : {transport::TransportStats{}, some_stats()}) {
    const PageCheck check = check_page(folder, stats_text(stats, 5));
    if (check.status == kPageParserMissing) GTEST_SKIP() << check.objections;
    EXPECT_EQ(check.status, 0) << check.objections;
  }
}

TEST(StatsTextTest, Promtool_HasNoObjection) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  TempFolder folder;
  const std::string name = (folder.path() / "stats.prom").string();
  std::ofstream(name) << stats_text(some_stats(), 5);
  EXPECT_EQ(std::system(("promtool check metrics < " + name).c_str()), 0);
}

// The names of metrics in a text: words of this prefix, but those of files and of the doctor.
std::set<std::string> metrics_in(const std::string& text) {
  std::set<std::string> names;
  const std::regex name("nccl_gdr_(?!doctor)[a-z_]*[a-z]");
  for (std::sregex_iterator match(text.begin(), text.end(), name), end; match != end; ++match) {
    names.insert(match->str());
  }
  return names;
}

TEST(StatsDocumentsTest, EachMetric_IsExplained_AndTheDashboardShowsNoOther) {
  const std::set<std::string> metrics = metrics_in(stats_text({}, 0));
  EXPECT_EQ(metrics_in(read_whole(GDR_METRICS_DOCUMENT)), metrics);
  const std::set<std::string> shown = metrics_in(read_whole(GDR_DASHBOARD));
  EXPECT_FALSE(shown.empty());
  EXPECT_THAT(metrics, IsSupersetOf(shown));
}

}  // namespace
}  // namespace gdr::plugin
