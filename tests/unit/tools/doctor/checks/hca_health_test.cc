#include "tests/unit/tools/doctor/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

auto moved(transport::HardwareCounters counters) {
  return [counters](MadeFabric* made) { made->add_roce().moved = counters; };
}

// Ends with the counters of an InfiniBand port that has lost its link twice.
auto link_downed(bool is_watched) {
  return [is_watched](MadeFabric* made) {
    RdmaPort& port = made->add_infiniband();
    port.error_counters = {{"link_downed", 2}, {"symbol_error", 0}};
    if (!is_watched) port.moved.reset();
  };
}

TEST(ErrorCounters, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "error-counters",
      {{"at rest", link_downed(true), Verdict::kOk, "",
        "not 0 since the driver was loaded: link_downed 2; none moved within a second"},
       {"moving", moved({{"out_of_sequence", 3}, {"local_ack_timeout_err", 1}}), Verdict::kWarning,
        "",
        "local_ack_timeout_err +1, out_of_sequence +3 within a second: acknowledgements did not "
        "arrive, and packets were sent again; packets were lost or arrived out of order",
        "congestion-control"},
       {"end of a job", moved({{"resp_cqe_error", 64}}), Verdict::kOk},
       {"symbol errors", moved({{"symbol_error", 12}}), Verdict::kWarning, "", "", "cable"},
       {"unknown name", moved({{"frobnication_errors", 1}}), Verdict::kWarning},
       {"copy of a machine", link_downed(false), Verdict::kUnknown},
       {"without counters", [](MadeFabric* made) { made->add_infiniband().has_counters = false; },
        Verdict::kUnknown}});
}

// HCAs with that firmware.
auto with_firmware(std::vector<std::string> versions) {
  return [versions](MadeFabric* made) {
    for (size_t i = 0; i < versions.size(); ++i) {
      made->add_infiniband();
      made->hca(i).firmware = versions[i];
    }
  };
}

TEST(HcaFirmware, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "hca-firmware",
      {{"equal", with_firmware({"28.39.1002", "28.39.1002"}), Verdict::kOk, "mlx5_0, mlx5_1",
        "firmware 28.39.1002"},
       {"one of three differs", with_firmware({"28.39.1002", "28.40.1000", "28.39.1002"}),
        Verdict::kWarning, "mlx5_1", "others of the board have 28.39.1002"},
       {"of another board",
        [](MadeFabric* made) {
          with_firmware({"28.39.1002", "22.1"})(made);
          made->hca(1).board_id = "DEL0000000027";
        },
        Verdict::kOk},
       {"unknown", with_firmware({""}), Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor
