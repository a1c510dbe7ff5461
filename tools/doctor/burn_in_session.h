// The measurements of one --burn-in, on this machine alone or together with another one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tools/doctor/burn_in.h"
#include "tools/doctor/burn_in_choice.h"
#include "tools/doctor/burn_in_link.h"
#include "tools/doctor/burn_in_perftest.h"

namespace gdr::tools::doctor {

struct Host;

// What the programs of a measurement get: the end that listens, and the one that connects.
struct PerftestEnds {
  BurnInEnd server, client;
  PerftestFabric server_fabric, client_fabric;
};

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
  // machines have the same result, which is that of the listening one. Between two rails of this
  // machine a few small messages are sent first; where none arrives, nothing is measured, with any
  // memory of the pair.
  Result<BurnInMeasurement> measure(const BurnInCase& one);

 private:
  BurnInSession(const Host& host, const Options& options) : host_(&host), options_(options) {}

  bool uses_perftest(const BurnInCase& one) const;
  Result<std::string> why_unreached(const BurnInCase& one);
  Result<std::string> why_unreached_by_perftest(const BurnInCase& one);
  Result<BurnInMeasurement> measure_with_perftest(const BurnInCase& one);
  Result<PerftestEnds> perftest_ends(const BurnInCase& one) const;
  Result<double> run_perftest(PerftestProgram program, const Result<PerftestEnds>& ends);
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
  // By the numbers of sender and receiver, what was seen of a pair.
  std::map<std::pair<int, int>, Result<std::string>> unreached_;
};

}  // namespace gdr::tools::doctor
