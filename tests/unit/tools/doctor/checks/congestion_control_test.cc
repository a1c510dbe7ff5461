#include "tests/unit/tools/doctor/facts/made_fabric.h"

namespace gdr::tools::doctor {
namespace {

// A RoCE port with that ECN switch ("" for unknown) and value of NCCL_IB_TC.
auto port_with(const char* ecn, const char* traffic_class = "", const char* of_driver = "") {
  return [=](MadeFabric* made) {
    made->add_roce();
    for (int priority = 0; *ecn != 0 && priority < 8; ++priority) {
      const std::string file = "/enable/" + std::to_string(priority);
      made->write("/sys/class/net/eth0/ecn/roce_np" + file, ecn);
      made->write("/sys/class/net/eth0/ecn/roce_rp" + file, ecn);
    }
    if (*traffic_class != 0) made->host.environment["NCCL_IB_TC"] = traffic_class;
    if (*of_driver != 0) made->write("/sys/class/infiniband/mlx5_0/tc/1/traffic_class", of_driver);
  };
}

TEST(CongestionControl, EachCase_HasItsVerdict) {
  expect_worst<MadeFabric>(
      "congestion-control",
      {{"InfiniBand alone", [](MadeFabric* made) { made->add_infiniband(); }, Verdict::kNothing},
       {"nothing readable", port_with(""), Verdict::kUnknown, "", "ECN unknown, NCCL_IB_TC unset"},
       {"the driver's class differs", port_with("", "106", "Global tclass=162\n"),
        Verdict::kWarning, "",
        "the driver's traffic class 162, NCCL_IB_TC=106: the driver's overrides"},
       {"the driver's class is NCCL's", port_with("", "162", "Global tclass=162\n"),
        Verdict::kUnknown},
       {"ECN off", port_with("0\n"), Verdict::kWarning},
       {"ECN on", port_with("1\n"), Verdict::kOk},
       {"rail that differs",
        [](MadeFabric* made) {
          port_with("1\n", "106")(made);
          made->add_roce();
        },
        Verdict::kWarning, "mlx5_1:1"},
       {"device of software",
        [](MadeFabric* made) {
          made->add_roce();
          made->hca(0).is_virtual = true;
        },
        Verdict::kOk}});
}

}  // namespace
}  // namespace gdr::tools::doctor
