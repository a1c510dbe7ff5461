// The output of `doctor --json` has the form that docs/doctor.schema.json describes.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/unit/tools/doctor/made_host.h"
#include "tests/unit/tools/doctor/made_report.h"
#include "tests/unit/tools/json_schema.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;

const Json& doctor_schema() {
  static const Json parsed = [] {
    std::ifstream in(GDR_DOCTOR_SCHEMA);
    return Json::parse(in);
  }();
  return parsed;
}

TEST(DoctorJson, EveryVerdictAndAnyByte_IsOfTheSchema) {
  const Json json = Json::parse(to_json(full_report()));
  EXPECT_THAT(violations(doctor_schema(), json), IsEmpty());
  EXPECT_EQ(json["verdict"], "failure");
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["checks"][4]["observations"][1]["steps"][0]["undo"], "echo down");
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

TEST(DoctorJson, EmptyReport_IsOfTheSchema) {
  EXPECT_THAT(violations(doctor_schema(), Json::parse(to_json(Report{}))), IsEmpty());
}

TEST(DoctorJson, EveryCheckOnAnEmptyRoot_IsOfTheSchema) {
  MadeHost made;
  const Json json = Json::parse(to_json(run_checks(all_checks(), made.host)));
  EXPECT_THAT(violations(doctor_schema(), json), IsEmpty());
  EXPECT_EQ(json["checks"].size(), all_checks().size());
}

TEST(DoctorJson, OtherVerdict_IsNotOfTheSchema) {
  Json json = Json::parse(to_json(full_report()));
  json["checks"][0]["verdict"] = "fine";
  EXPECT_THAT(violations(doctor_schema(), json), Contains(HasSubstr("/checks/0/verdict")));
}

}  // namespace
}  // namespace gdr::tools::doctor
