#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(ErrorCounters, CountersThatDoNotMove_AreOkWithTheirValues) {
  MadeFabric made;
  RdmaPort& port = made.add_infiniband();
  port.error_counters = {{"link_downed", 2}, {"symbol_error", 0}};
  EXPECT_EQ(worst_of(error_counters(), made.host).evidence,
            "not 0 since the driver was loaded: link_downed 2; none moved within a second");
  EXPECT_EQ(verdict_of(error_counters(), made.host), Verdict::kOk);
}

TEST(ErrorCounters, CounterThatMoves_IsAWarningWithItsMeaning) {
  MadeFabric made;
  made.add_roce().moved = {{"out_of_sequence", 3}, {"local_ack_timeout_err", 1}};
  const Observation seen = worst_of(error_counters(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_THAT(seen.evidence,
              HasSubstr("local_ack_timeout_err +1, out_of_sequence +3 within a second: "
                        "acknowledgements did not arrive, and packets were sent again; packets "
                        "were lost or arrived out of order"));
  EXPECT_THAT(seen.fix, HasSubstr("congestion-control"));
}

TEST(ErrorCounters, EndOfAJob_IsOk) {
  MadeFabric made;
  made.add_roce().moved = {{"resp_cqe_error", 64}};
  EXPECT_EQ(verdict_of(error_counters(), made.host), Verdict::kOk);
}

TEST(ErrorCounters, SymbolErrors_AreAboutTheCable) {
  MadeFabric made;
  made.add_infiniband().moved = {{"symbol_error", 12}};
  EXPECT_THAT(worst_of(error_counters(), made.host).fix, HasSubstr("cable"));
}

TEST(ErrorCounters, UnknownName_IsStillAWarning) {
  MadeFabric made;
  made.add_infiniband().moved = {{"frobnication_errors", 1}};
  EXPECT_EQ(verdict_of(error_counters(), made.host), Verdict::kWarning);
}

TEST(ErrorCounters, CopyOfAMachine_ShowsValuesButNotWhetherTheyMove) {
  MadeFabric made;
  RdmaPort& port = made.add_infiniband();
  port.moved.reset();
  port.error_counters = {{"link_downed", 2}};
  EXPECT_EQ(verdict_of(error_counters(), made.host), Verdict::kUnknown);
}

TEST(ErrorCounters, WithoutCounters_IsUnknown) {
  MadeFabric made;
  made.add_infiniband().has_counters = false;
  EXPECT_EQ(verdict_of(error_counters(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
