// One check of `nccl-gdr doctor`: what it looks at, why that matters, and what it saw.
//
// A check is a row of the table in checks/checks.cc and a function in the file of its subject
// beside it. The function is one of the Host alone, so that a test can show it any machine. It
// reports only what it looked at: what could not be seen is kUnknown, with the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "topology/model.h"

namespace gdr::tools::doctor {

struct Host;

// Ordered: a check is as bad as the worst of its observations.
enum class Verdict : uint8_t {
  kNothing,  // the machine has nothing that the check is about, such as a GPU
  kOk,
  kUnknown,  // it could not be looked at, which says nothing about the machine
  kWarning,
  kFailure,
};

// What a failure costs, the worst last. The summary is sorted by it.
enum class Cost : uint8_t {
  kRisk,    // it may fail or slow down later, or for some jobs
  kSlows,   // a part of the bandwidth
  kHalves,  // half of the bandwidth or more: no GPUDirect RDMA, the wrong rail
  kStops,   // jobs do not start, or do not use RDMA at all
};

// What a check saw about one subject.
struct Observation {
  Verdict verdict = Verdict::kOk;
  std::string subject;   // "mlx5_0:1", "GPU0 (0000:1a:00.0)"; empty: the machine
  std::string evidence;  // what was seen, with its source: "memlock is 64 KiB (/proc/self/limits)"
  std::string fix;       // an imperative without full stop; empty for kOk and kNothing
  std::vector<std::string> steps;  // commands of a POSIX shell that fix it, where there are such
  // For kUnknown: what would show it, "run it as root", "mount /sys in the container".
  std::string needs;
  std::optional<Cost> cost = {};         // where it is another than that of the check
  std::optional<FindingKind> kind = {};  // likewise
};

using Observations = std::vector<Observation>;

// What a file with a topology shows of what a check looks at.
struct InFile {
  bool needs_gpu = false, needs_hca = false;  // without one, the check is about nothing there
  const char* what = "";                      // "the width of any PCIe link"
  bool (*is_shown)(const topology::Machine& machine) = nullptr;  // null: always
  // Adds what is wrong with the file itself; null: nothing.
  void (*judge_file)(const Host& host, Observations* seen) = nullptr;
};

struct Check {
  const char* name;      // for --check: "pci-acs"; lower case, words joined by '-'
  const char* looks_at;  // "the ACS control register of each bridge between a GPU and its rail"
  const char* why;       // what goes wrong otherwise, in a full sentence
  Cost cost;             // of a failure
  // The kinds of findings that it reports; the first is that of its own observations. None: the
  // check's name says what is wrong.
  std::vector<FindingKind> kinds = {};
  std::optional<InFile> in_file = {};  // nothing: a file cannot show what the check looks at
  bool needs_topology = false;         // whether it is unknown where the topology is, before `run`
  bool is_about_gpus = false;          // whether all of its observations but its findings are
  // Returns at least one observation. Where there is nothing to look at, as GPUs on a machine
  // without one, that is kNothing, or kUnknown where it is the reason for running the doctor at
  // all.
  Observations (*run)(const Host& host);
};

// Short forms for the checks.
Observation nothing(std::string evidence);
Observation ok(std::string subject, std::string evidence);
Observation unknown(std::string subject, std::string evidence, std::string needs);
Observation warning(std::string subject, std::string evidence, std::string fix,
                    std::vector<std::string> steps = {});
Observation failure(std::string subject, std::string evidence, std::string fix,
                    std::vector<std::string> steps = {});

// A failure for an error, else a warning.
Observation observation_of(const Finding& finding);

// For Observation::needs.
inline constexpr char kNeedsRoot[] = "run it as root";

// Returns the observation with a cost of its own.
Observation at_cost(Cost cost, Observation observation);

const char* name_of(Verdict verdict);  // "nothing", "ok", "unknown", "warning", "failure"
const char* name_of(Cost cost);        // "risk", "slows", "halves", "stops"

}  // namespace gdr::tools::doctor
