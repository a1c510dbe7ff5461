// The measurements of one --burn-in, on this machine alone or together with another one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/doctor/burn_in.h"
#include "tools/doctor/burn_in_choice.h"
#include "tools/doctor/burn_in_link.h"
#include "tools/doctor/burn_in_perftest.h"

namespace gdr::tools::doctor {

struct Host;

class BurnInSession {
 public:
  struct Options {
    BurnInPeer peer;
    BurnInWith with = BurnInWith::kAuto;
    std::string path;  // PATH, where perftest is looked for
  };

  // Looks for perftest, meets the other machine and agrees with it on what measures. Fails with
  // kInvalidUsage. The host has to outlive the session.
  static Result<BurnInSession> open(const Host& host, const std::vector<BurnInCase>& cases,
                                    const Options& options);

  // What measures: "ib_write_bw 6.06", "nccl-gdr perf (perftest: ib_write_bw is not in PATH)".
  std::string measured_by() const;

  // The next measurement; the other machine has to be at the same one. See MeasureBurnIn. Both
  // machines have the same result, which is that of the listening one.
  Result<BurnInMeasurement> measure(const BurnInCase& one);

 private:
  BurnInSession(const Host& host, const Options& options) : host_(&host), options_(options) {}

  bool uses_perftest(const BurnInCase& one) const;
  Result<BurnInMeasurement> measure_with_perftest(const BurnInCase& one);
  Result<double> run_perftest(PerftestProgram program, const BurnInCase& one,
                              const Result<PerftestFabric>& fabric);
  bool other_has_ended() const;
  Status start_together(const Status& own);
  Result<std::vector<double>> share(Result<std::vector<double>> own, size_t count,
                                    BurnInClock::duration limit);

  const Host* host_;
  Options options_;
  std::optional<Perftest> perftest_;
  BurnInOffer own_, other_;  // for "local" they are the same
  BurnInChoice choice_;
  std::optional<BurnInLink> link_;
};

}  // namespace gdr::tools::doctor
