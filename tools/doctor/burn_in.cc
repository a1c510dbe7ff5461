#include "tools/doctor/burn_in.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/finding.h"
#include "tools/doctor/burn_in_pairs.h"
#include "tools/doctor/host.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

Check burn_in_check() {
  return {.name = "burn-in",
          .looks_at = "the bandwidth and latency of each rail, with host and GPU memory",
          .why =
              "A path below its class has a fault that settings do not show: a cable, a link "
              "that trained down, peer-to-peer traffic that takes the CPU's root complex.",
          .cost = Cost::kHalves,
          .run = nullptr};
}

// The texts of errors may end in ". Fix: ...".
Observation not_measured(const BurnInCase& one, const Error& error) {
  const Finding parts = split_fix(error.text);
  if (error.code == Code::kRemote) {
    const std::string otherwise =
        one.receiver
            ? "look at both ports by nccl-gdr doctor and --burn-in loopback"
            : "run nccl-gdr conformance, and nccl-gdr doctor on every machine that took part";
    return at_cost(Cost::kStops,
                   failure(one.subject, parts.text, parts.fix.empty() ? otherwise : parts.fix));
  }
  return unknown(one.subject, "it was not measured: " + parts.text,
                 !parts.fix.empty() ? parts.fix : "remove what the error says and run it again");
}

// What a good measurement reaches: the rate of the slower port, by the worse class of path.
struct ExpectedRate {
  double gbits = 0;   // 0: the rate of a port is unknown
  std::string whose;  // "the port", "mlx5_1:1"
  double share = 0;
  std::string path;  // "SYS"
};

ExpectedRate expected_rate(const BurnInCase& one) {
  const BurnInEnd& sender = one.end;
  if (!one.receiver) return {sender.port_gbits, "the port", sender.share, sender.path};
  const BurnInEnd& receiver = *one.receiver;
  // An unknown rate, 0, counts as the lower one.
  const BurnInEnd& slower = receiver.port_gbits < sender.port_gbits ? receiver : sender;
  const BurnInEnd& worse = receiver.share < sender.share ? receiver : sender;
  const std::string whose = sender.port_gbits == receiver.port_gbits && slower.port_gbits > 0
                                ? "each port"
                                : fmt::format("{}:{}", slower.hca, slower.port);
  return {slower.port_gbits, whose, worse.share, worse.path};
}

constexpr char kFixOfSlowPath[] =
    "look at what nccl-gdr doctor finds on this path first (ACS, PCIe link, IOMMU, GPUDirect); "
    "where other rails are as slow, that is the limit of the machine, and --burn-in-shares sets it";
constexpr char kFixOfSlowPair[] =
    "measure by --burn-in loopback: where both ports reach their rate by themselves, look at their "
    "cables and switch ports, and at the switches between them; a rail that is slow as the sender "
    "and as the receiver has the fault. Otherwise look at what nccl-gdr doctor finds on its path "
    "(ACS, PCIe link, IOMMU, GPUDirect)";

// What is seen of a pair while nothing is known of the others.
Observation unreached(const BurnInCase& one, const std::string& why) {
  const Finding parts = split_fix(why);
  const std::string otherwise =
      parts.fix.empty() ? "look at the cables, VLANs and routes of both ports" : parts.fix;
  return unknown(
      fmt::format("{} to {}", one.end.rail, one.receiver->rail),
      "no message arrived: " + parts.text,
      "nothing is wrong where the fabric keeps rails apart: measure by --burn-in ADDRESS. "
      "Otherwise (on RoCE, see docs/doctor.md, Burn-in): " +
          otherwise);
}

// The same of a pair that the fabric does not mean to keep apart, for the reason `fault`.
Observation faulty_pair(Observation seen, const std::string& why, const std::string& fault) {
  const std::string fix = split_fix(why).fix;
  return at_cost(
      Cost::kStops,
      failure(std::move(seen.subject), std::move(seen.evidence) + "; " + fault,
              (fix.empty() ? "look at the cables, VLANs and routes of both ports" : fix) +
                  " (on RoCE, see docs/doctor.md, Burn-in)"));
}

std::string measured_text(const BurnInMeasurement& measured) {
  const std::string latency =
      measured.latency_us > 0 ? fmt::format("{:.1f} us", measured.latency_us) : "latency unknown";
  return fmt::format("{:.1f} Gb/s, {} by {}", measured.gbits, latency, measured.by);
}

}  // namespace

std::vector<BurnInCase> burn_in_cases(const Host& host, const BurnInPeer& peer,
                                      const BurnInShares& shares) {
  if (!peer.is_local) return cases_with_other_machine(host, shares);
  return peer.is_loopback ? cases_of_loopback(host, shares) : cases_of_ring(host, shares);
}

Observation judge_burn_in(const BurnInCase& one, const BurnInMeasurement& measured) {
  const std::string seen = measured_text(measured);
  const ExpectedRate expected = expected_rate(one);
  if (expected.gbits <= 0) {
    return unknown(one.subject, seen + "; the rate of " + expected.whose + " is unknown",
                   "compare with other rails and machines");
  }
  const double share = measured.gbits / expected.gbits;
  const std::string evidence =
      fmt::format("{}: {:.0f} % of {}'s {:g} Gb/s, and {:.0f} % are expected ({})", seen,
                  100 * share, expected.whose, expected.gbits, 100 * expected.share, expected.path);
  if (share >= expected.share) return ok(one.subject, evidence);
  return failure(one.subject, evidence, one.receiver ? kFixOfSlowPair : kFixOfSlowPath);
}

// The software HCA runs at what the CPU copies, and the rate of its ports means nothing.
bool is_on_software_hca(const Host& host) {
  return !host.libraries.verbs.empty() && host.libraries.verbs.front().is_software_hca;
}

Observation measured_by_software(const BurnInCase& one, const BurnInMeasurement& measured) {
  return unknown(one.subject, measured_text(measured) + "; the software HCA has no rate of its own",
                 "measure with the libibverbs of the system: take the software HCA out of "
                 "LD_LIBRARY_PATH");
}

namespace {

Observation observed(const Host& host, const BurnInCase& one,
                     const Result<BurnInMeasurement>& measured) {
  if (!measured) return not_measured(one, measured.error());
  if (!measured->unreached.empty()) return unreached(one, measured->unreached);
  Observation seen = is_on_software_hca(host) ? measured_by_software(one, *measured)
                                              : judge_burn_in(one, *measured);
  if (!one.note.empty()) seen.evidence += "; " + one.note;
  return seen;
}

// Rails that NCCL_IB_HCA excludes are not part of the plan.
void add_rails_that_are_down(const Host& host, Observations* seen) {
  if (!host.inspection) return;
  const topology::RailDecision& decision = host.inspection->decision;
  for (const topology::Rail& rail : decision.plan.rails) {
    if (rail.usable) continue;
    const topology::Hca& hca = decision.machine.hcas[static_cast<size_t>(rail.port.hca)];
    seen->push_back(failure(
        fmt::format("rail {} {}:{}", rail.id, hca.name,
                    topology::port_of(decision.machine, rail.port).number),
        rail.why_not.empty() ? "it is not usable" : rail.why_not,
        "nccl-gdr doctor --check port-state says why; a port that is meant to be down is left out "
        "by NCCL_IB_HCA"));
  }
}

bool has_subject(const Observations& seen, const std::string& subject) {
  return std::any_of(seen.begin(), seen.end(),
                     [&](const Observation& one) { return one.subject == subject; });
}

// The measurements of a run, and what is seen of them.
class BurnInRun {
 public:
  BurnInRun(const Host& host, const MeasureBurnIn& measure) : host_(host), measure_(measure) {}

  // Measures and adds what is seen; of a pair that does not reach each other one line for all its
  // memory, and the sender by itself. False: the other machine does not answer, and nothing more
  // can be measured.
  bool measure(const BurnInCase& one);

  // What is seen, once all pairs are known.
  Observations finish();

 private:
  struct Unreached {
    BurnInCase pair;
    std::string why;
    size_t at;  // in seen_
  };

  const Host& host_;
  const MeasureBurnIn& measure_;
  Observations seen_;
  BurnInPairs pairs_;
  std::vector<Unreached> unreached_;
};

bool BurnInRun::measure(const BurnInCase& one) {
  const Result<BurnInMeasurement> measured = measure_(one);
  Observation of_case = observed(host_, one, measured);
  const bool is_unreached = measured && !measured->unreached.empty();
  // A transfer that fails does so after small messages have arrived.
  const bool is_reached = measured ? !is_unreached : measured.error().code == Code::kRemote;
  if (one.receiver && (is_reached || is_unreached)) {
    pairs_.add(one.end, *one.receiver, is_reached);
  }
  if (!has_subject(seen_, of_case.subject)) {
    if (is_unreached) unreached_.push_back({one, measured->unreached, seen_.size()});
    seen_.push_back(std::move(of_case));
  }
  if (!measured) return measured.error().code != Code::kInvalidUsage;
  if (!is_unreached) return true;
  const BurnInCase alone = to_itself(one);
  if (has_subject(seen_, alone.subject)) return true;
  seen_.push_back(observed(host_, alone, measure_(alone)));
  return true;
}

Observations BurnInRun::finish() {
  for (const auto& [pair, why, at] : unreached_) {
    const std::string fault = pairs_.fault_of(pair.end, *pair.receiver);
    if (!fault.empty()) seen_[at] = faulty_pair(std::move(seen_[at]), why, fault);
  }
  return std::move(seen_);
}

}  // namespace

Report burn_in(const Host& host, const std::vector<BurnInCase>& cases,
               const MeasureBurnIn& measure) {
  Report report;
  report.host = topo::clean_text(host.line("/proc/sys/kernel/hostname"));
  report.is_root = geteuid() == 0;
  BurnInRun run(host, measure);
  const auto end = std::find_if_not(cases.begin(), cases.end(),
                                    [&](const BurnInCase& one) { return run.measure(one); });
  CheckResult result{burn_in_check(), run.finish()};
  if (cases.end() - end > 1) {
    result.observations.push_back(unknown("", "the other rails were not measured",
                                          "start the same command again on both machines"));
  }
  if (cases.empty()) {
    result.observations.push_back(unknown(
        "", host.inspection_error.empty() ? "there is no usable rail" : host.inspection_error,
        "nccl-gdr doctor and nccl-gdr topo say why"));
  }
  add_rails_that_are_down(host, &result.observations);
  report.results.push_back(std::move(result));
  return report;
}

}  // namespace gdr::tools::doctor
