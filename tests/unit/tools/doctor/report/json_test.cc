#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/doctor/facts/made_host.h"
#include "tests/unit/tools/doctor/report/made_report.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(DoctorJson, EveryVerdictAndAnyByte_IsJson) {
  const Json json = Json::parse(to_json(full_report()));
  EXPECT_EQ(json["verdict"], "failure");
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["checks"][4]["observations"][1]["steps"][0]["command"], "ip link set eth1 up");
}

TEST(DoctorJson, ObservationWithACostOfItsOwn_IsTheCostOfBoth) {
  const Report report = report_of(
      {result_of("mixed", Cost::kRisk,
                 {ok("mlx5_0:1", "is well"),
                  at_cost(Cost::kHalves, failure("mlx5_1:1", "is down", "ip link set eth1 up"))})});
  const Json check = Json::parse(to_json(report))["checks"][0];
  EXPECT_EQ(check["cost"], "halves");
  EXPECT_EQ(check["observations"][0]["cost"], "risk");
  EXPECT_EQ(check["observations"][1]["cost"], "halves");
  EXPECT_THAT(to_prometheus(report), HasSubstr("{check=\"mixed\",cost=\"halves\"} 2\n"));
}

// By the observation, else the check, else the check's name; nothing where nothing is wrong.
TEST(DoctorJson, Kind_IsNamedByJsonAndMetrics) {
  Observations seen = {ok("mlx5_0:1", "is well"), failure("mlx5_1:1", "is slow", "look at it"),
                       observation_of({FindingKind::kAcs, Severity::kWarning, "GPU0", "x", "y"})};
  Report report = report_of({result_of("port-rate", Cost::kSlows, seen),
                             result_of("plain", Cost::kSlows, {warning("", "is odd", "look")})});
  report.results[0].check.kinds = {FindingKind::kSlowLink};
  const Json json = Json::parse(to_json(report));
  const Json& observations = json["checks"][0]["observations"];
  EXPECT_TRUE(observations[0]["kind"].is_null());
  EXPECT_EQ(observations[1]["kind"], "slow-link");
  EXPECT_EQ(observations[2]["kind"], "acs");
  EXPECT_EQ(observations[2]["verdict"], "warning");
  EXPECT_EQ(json["checks"][1]["observations"][0]["kind"], "plain");
  EXPECT_THAT(to_prometheus(report), HasSubstr("{check=\"port-rate\",kind=\"acs\"} 1\n"));
}

TEST(DoctorJson, EveryCheckOnAnEmptyRoot_IsThere) {
  MadeHost made;
  const Json json = Json::parse(to_json(run_checks(all_checks(), made.host)));
  EXPECT_EQ(json["checks"].size(), all_checks().size());
}

}  // namespace
}  // namespace gdr::tools::doctor
