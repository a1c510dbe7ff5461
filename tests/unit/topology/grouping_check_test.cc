#include "topology/grouping_check.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"
#include "topology/grouping.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kGpu = ClassChange::With::kGpu;
constexpr auto kHca = ClassChange::With::kHca;

TEST(GroupingCheck, ChangedClasses_AreListedByGpu) {
  RailDecision scene = scene_of(machine_with_one_switch());
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  EXPECT_THAT(class_changes(scene.machine, grouped),
              ElementsAre(ClassChange{0, kGpu, 1, PathClass::kPix, PathClass::kPxb},
                          ClassChange{0, kHca, 1, PathClass::kPix, PathClass::kPxb},
                          ClassChange{1, kHca, 0, PathClass::kPix, PathClass::kPxb}));
  Findings findings = grouping_findings(scene.machine, grouped);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(to_string(findings[0]),
            "GPU0: the file shows other distances than the machine: GPU1 PIX to PXB, mlx5_1 PIX to "
            "PXB");
  EXPECT_EQ(findings[0].severity, Severity::kInfo);
  EXPECT_EQ(to_string(findings[1]),
            "GPU1: the file shows other distances than the machine: mlx5_0 PIX to PXB");
  EXPECT_THAT(class_changes(grouped, grouped), IsEmpty());
}

TEST(GroupingCheck, GpusTornApart_AreAWarning) {
  Machine machine = machine_with_one_switch(), grouped = machine;
  grouped.gpus[1].at.parent = -1;
  Findings findings = grouping_findings(machine, grouped);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_THAT(findings[0].text, HasSubstr("GPU1 PIX to PHB"));
}

}  // namespace
}  // namespace gdr::topology
