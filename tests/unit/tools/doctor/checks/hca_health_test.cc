#include "tests/unit/tools/doctor/facts/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

// Ends with the counters of a port, and those that it had the time before.
auto counters(HardwareCounters now, HardwareCounters before = {}, uint64_t seconds = 0) {
  return [=](MadeFabric* made) { made->add_counters(now, before, seconds); };
}

constexpr uint64_t kHour = 3600, kDay = 24 * kHour;

TEST(ErrorCounters, EachCase_HasItsVerdict) {
  const HardwareCounters downed = {{"link_downed", 2}, {"symbol_error", 0}};
  expect_worst<MadeFabric>(
      "error-counters",
      {{"at rest", counters(downed, downed, 1), Verdict::kOk, "mlx5_0:1",
        "not 0: link_downed 2 (the machine has been up for 25 h); none moved in the last 1 s"},
       {"moving",
        counters({{"local_ack_timeout_err", 5}, {"out_of_sequence", 3}},
                 {{"local_ack_timeout_err", 4}, {"out_of_sequence", 0}}, 1),
        Verdict::kWarning, "",
        "local_ack_timeout_err 1 (5 in all), out_of_sequence 3 (3 in all) in the last 1 s: "
        "acknowledgements did not arrive, and packets were sent again; packets were lost or "
        "arrived out of order",
        "NCCL_IB_TC"},
       {"end of a job", counters({{"resp_cqe_error", 64}}, {{"resp_cqe_error", 0}}, 1),
        Verdict::kOk},
       {"unknown name", counters({{"new_errors", 1}}, {{"new_errors", 0}}, 1), Verdict::kWarning,
        "", "an error of this driver alone"},
       {"copy of a machine", counters(downed), Verdict::kUnknown, "", "", "--since"},
       {"copy without errors", counters({{"link_downed", 0}}), Verdict::kOk, "", "all are 0"},
       {"without counters", counters({}), Verdict::kUnknown}});
}

TEST(ErrorCounters, SinceAnEarlierReport_AreJudgedByTheirRate) {
  const auto moved = [](const char* name, uint64_t by, uint64_t seconds) {
    return counters({{name, 300 + by}}, {{name, 300}}, seconds);
  };
  expect_worst<MadeFabric>(
      "error-counters",
      {{"flaps", moved("link_downed", 3, 2 * kHour), Verdict::kWarning, "",
        "link_downed 3 (303 in all) in the last 2 h: the link went down", "cable"},
       {"many flaps", moved("link_downed", 6, 600), Verdict::kFailure, "", "in the last 10 min"},
       {"few in a long time", moved("link_downed", 29, 30 * kDay), Verdict::kOk, "", "30 days"},
       {"one each day", moved("link_error_recovery", 30, 30 * kDay), Verdict::kWarning},
       {"more than five each day", moved("link_downed", 151, 30 * kDay), Verdict::kFailure},
       {"carrier lost five times", moved("carrier_changes", 10, kHour), Verdict::kWarning},
       {"few wrong bits", moved("symbol_error", 239, 2 * kHour), Verdict::kOk},
       {"wrong bits", moved("symbol_error", 240, 2 * kHour), Verdict::kWarning},
       {"retries in vain", moved("local_link_integrity_errors", 1, kDay), Verdict::kWarning},
       {"end of a job", moved("resp_cqe_error", 6400, kHour), Verdict::kOk},
       {"set to 0", counters({{"link_downed", 0}}, {{"link_downed", 201}}, kHour), Verdict::kOk, "",
        "link_downed began again (0 in all)"},
       {"many since it was set to 0",
        counters({{"link_downed", 200}}, {{"link_downed", 201}}, kHour), Verdict::kFailure, "",
        "link_downed began again (200 in all) in the last 60 min: the link went down", "cable"},
       {"counts no longer", counters({{"link_downed", 255}}, {{"link_downed", 255}}, kHour),
        Verdict::kUnknown, "", "still at its largest value 255", "perfquery -C 'mlx5_0' -P 1 -R"},
       {"few until it counts no longer",
        counters({{"link_downed", 255}}, {{"link_downed", 253}}, 10 * kDay), Verdict::kUnknown, "",
        "link_downed 2 (255 in all, its largest value)", "perfquery"},
       {"many until it counts no longer",
        counters({{"link_downed", 255}}, {{"link_downed", 100}}, kDay), Verdict::kFailure},
       {"new counter", counters({{"link_downed", 200}}, {}, kHour), Verdict::kUnknown, "",
        "link_downed unknown (200 in all, not in the earlier report)", "later"},
       {"new counter at 0", counters({{"link_downed", 0}}, {}, kHour), Verdict::kOk},
       {"PCIe replays of a healthy link", moved("aer_dev_correctable", 479, kHour), Verdict::kOk},
       {"PCIe replays", moved("upstream_aer_dev_correctable", 480, kHour), Verdict::kWarning, "",
        "the HCA's PCIe link corrected errors", "reseat the card"},
       {"failed transfers", moved("aer_dev_nonfatal", 1, kDay), Verdict::kWarning},
       {"failure of the PCIe link", moved("aer_dev_fatal", 1, 30 * kDay), Verdict::kFailure},
       {"new port",
        [](MadeFabric* made) {
          made->add_counters({{"link_downed", 200}}, {{"link_downed", 100}}, kHour);
          made->host.earlier->ports.clear();
        },
        Verdict::kUnknown, "", "--since has no counters of the port from this boot"}});
}

}  // namespace
}  // namespace gdr::tools::doctor
