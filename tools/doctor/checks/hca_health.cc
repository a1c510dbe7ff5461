// The health of HCAs: error counters of ports, and how fast they move.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

// What a counter that moves means, by a part of its name; the first that matches counts. Sources:
// Documentation/ABI/stable/sysfs-class-infiniband of Linux, IBTA 16.1.3.5, and the names in the
// drivers mlx5, bnxt_re, irdma, efa and rxe.
struct CounterMeaning {
  std::string_view part, meaning, fix;
  // At which it stays: those of PortCounters (IBTA) have 4 to 16 bits. 0: it has more.
  uint64_t largest = 0;
  // So many a day are a warning. IBTA allows one wrong bit in 10^12, which is 144 an hour at 40
  // Gb/s; faster links correct most errors.
  double warning = 24 * 120;
  // More than so many a day, or within a part of it, are a failure.
  double failure = std::numeric_limits<double>::infinity();
};

constexpr std::string_view kCable =
    "look at the cable and the transceivers (mlxlink -d HCA -c, or ethtool -m INTERFACE), swap "
    "them";
constexpr std::string_view kLoss =
    "look for drops on the switches, and at PFC, ECN and NCCL_IB_TC: docs/roce.md";
constexpr std::string_view kSlot =
    "reseat the card and its riser or cable, and look at nccl-gdr doctor --check pcie-link";
constexpr std::string_view kPeer = "look at the peer's log: it may have died";

// Azure's health checks drain a GPU node that lost a link more than 5 times in 24 hours.
constexpr double kFlaps = 5;

// NVIDIA's DCGM warns of a GPU that sends more than 8 packets a minute again over PCIe
// (DCGM_LIMIT_MAX_PCIREPLAY_RATE in its dcgm_gpu_hardware_limits.h).
constexpr double kReplays = 24 * 60 * 8;

constexpr auto kMeanings = std::to_array<CounterMeaning>({
    {"aer_dev_correctable", "the HCA's PCIe link corrected errors", kSlot, 0, kReplays},
    {"aer_dev_nonfatal", "transfers on the HCA's PCIe link failed", kSlot, 0, 1},
    {"aer_dev_fatal", "the HCA's PCIe link failed", kSlot, 0, 1, 0},
    {"symbol_error", "bits were damaged on the link", kCable, 65535},
    {"link_error_recovery", "the link trained again", kCable, 255, 1, kFlaps},
    {"link_downed", "the link went down", kCable, 255, 1, kFlaps},
    {"carrier_changes", "the link went down", kCable, 0, 2, 2 * kFlaps},
    {"local_link_integrity", "bits were damaged on the link", kCable, 15, 1},
    {"buffer_overrun", "bits were damaged on the link", kCable, 15, 1},
    {"remote_physical", "bits were damaged on another link of the path", kCable, 65535},
    {"port_rcv_errors", "damaged packets arrived", kCable, 65535},
    {"icrc", "damaged packets arrived", kCable},
    {"rnr_nak", "the receiver posted its buffers late", "look for a slow or stopped receiver"},
    {"out_of_buffer", "the receiver posted its buffers late",
     "look for a slow or stopped receiver"},
    {"discard", "the port could not send packets, and dropped them", kLoss, 65535},
    {"access_err", "a peer used memory keys that are not valid", kPeer},
    {"timeout", "acknowledgements did not arrive, and packets were sent again", kLoss},
    {"retr", "packets were sent again", kLoss},
    {"dup", "packets arrived twice, so that acknowledgements were lost", kLoss},
    {"seq", "packets were lost or arrived out of order", kLoss},
    {"out_of", "packets were lost or arrived out of order", kLoss},
    {"drop", "packets were dropped", kLoss},
    {"", "an error of this driver alone", "look the counter up in the driver's documentation"},
});

const CounterMeaning& meaning_of(const std::string& counter) {
  return *std::find_if(kMeanings.begin(), kMeanings.end(), [&](const auto& one) {
    return counter.find(one.part) != std::string::npos;
  });
}

void add_once(std::vector<std::string_view>* texts, std::string_view text) {
  if (std::find(texts->begin(), texts->end(), text) == texts->end()) texts->push_back(text);
}

// Of mlx5, these count each request that a queue pair gives up when it is closed, too.
bool is_of_closing(const std::string& counter) {
  return counter.find("cqe_error") != std::string::npos;
}

std::string duration_text(uint64_t seconds) {
  constexpr std::pair<uint64_t, const char*> kUnits[] = {{86400, "days"}, {3600, "h"}, {60, "min"}};
  for (const auto& [unit, name] : kUnits) {
    if (seconds >= 2 * unit) return fmt::format("{} {}", seconds / unit, name);
  }
  return fmt::format("{} s", seconds);
}

// "link_downed 17, packet_seq_err 3 and 5 more (the machine has been up for 3 days)"; "all are 0".
// Some HCAs count on when their driver is loaded again.
std::string totals_text(const HardwareCounters& counters, uint64_t uptime) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : counters) {
    if (value == 0 || name == "carrier_changes") continue;  // a link that came up counts, too
    texts.push_back(fmt::format("{} {}", name, value));
  }
  if (texts.empty()) return "all are 0";
  const std::string up = " (the machine has been up for " + duration_text(uptime) + ")";
  return "not 0: " + topo::short_list(texts) + (uptime > 0 ? up : "");
}

// What the counters of a port did since an earlier reading.
struct Moves {
  uint64_t seconds = 0;
  Verdict worst = Verdict::kOk;
  std::string needs;  // for the verdict, where it is kUnknown
  std::vector<std::string> texts;
  std::vector<std::string_view> meanings, fixes;  // of those that moved too fast
};

Verdict verdict_of(const CounterMeaning& meaning, uint64_t moved, uint64_t seconds) {
  const double days = static_cast<double>(seconds) / 86400;
  const auto count = static_cast<double>(moved);
  if (count > meaning.failure * std::max(1.0, days)) return Verdict::kFailure;
  return count >= meaning.warning * days ? Verdict::kWarning : Verdict::kOk;
}

// A counter that is less than before began again at 0 meanwhile. One at its largest value may have
// missed any number of events.
void add_move(const FabricPort& one, const std::string& name, uint64_t before, uint64_t after,
              Moves* moves) {
  const CounterMeaning& meaning = meaning_of(name);
  const bool is_largest = after > 0 && after == meaning.largest;
  const uint64_t moved = after < before ? after : after - before;
  const Verdict verdict = std::max(verdict_of(meaning, moved, moves->seconds),
                                   is_largest ? Verdict::kUnknown : Verdict::kOk);
  if (is_largest) {
    moves->needs = fmt::format(
        "set the counters of the port to 0: perfquery -C {0} -P {1} -R, or mlxlink -d {0} --pc",
        topo::shell_word(one.hca->name), one.port->number);
  }
  if (after < before) {
    moves->texts.push_back(fmt::format("{} began again ({} in all)", name, after));
  } else if (after > before) {
    moves->texts.push_back(fmt::format("{} {} ({} in all{})", name, moved, after,
                                       is_largest ? ", its largest value" : ""));
  } else if (is_largest) {
    moves->texts.push_back(fmt::format("{} still at its largest value {}", name, after));
  }
  moves->worst = std::max(moves->worst, verdict);
  if (verdict < Verdict::kWarning) return;
  add_once(&moves->meanings, meaning.meaning);
  add_once(&moves->fixes, meaning.fix);
}

// A counter of the port that the earlier report lacks, as that of a kernel or a doctor that did not
// have it.
void add_new_counter(const std::string& name, uint64_t value, Moves* moves) {
  if (value == 0 || name == "carrier_changes") return;
  moves->worst = std::max(moves->worst, Verdict::kUnknown);
  moves->needs = "give --since a later report, which has the counter";
  moves->texts.push_back(
      fmt::format("{} unknown ({} in all, not in the earlier report)", name, value));
}

Observation moved_counters(const FabricPort& one, const Moves& moves) {
  const std::string moved =
      fmt::format("{} in the last {}", fmt::join(moves.texts, ", "), duration_text(moves.seconds));
  Observation seen = ok(one.label, moved);
  seen.verdict = moves.worst;
  if (moves.worst == Verdict::kUnknown) {
    seen.needs = moves.needs;
  } else if (moves.worst != Verdict::kOk) {
    seen.evidence += fmt::format(": {}", fmt::join(moves.meanings, "; "));
    seen.fix = fmt::format("{}", fmt::join(moves.fixes, "; "));
  }
  return seen;
}

Observation error_counters_of(const Host& host, const FabricPort& one) {
  const PortCounters* now = same_port(
      host.counters, {topo::clean_text(one.hca->name), one.port->number, one.hca->guid, {}});
  if (now == nullptr || now->values.empty()) {
    return unknown(one.label, "it has no counters in sysfs", "mount /sys of the host");
  }
  const std::string totals = totals_text(now->values, host.counters.uptime);
  const PortCounters* before = host.earlier.has_value() ? same_port(*host.earlier, *now) : nullptr;
  if (before == nullptr) {
    if (totals == totals_text({}, 0)) return ok(one.label, totals);
    return unknown(
        one.label,
        totals + (host.earlier.has_value() ? "; --since has no counters of the port from this boot"
                                           : "; whether they move is unknown"),
        "run it on the machine without --since, or give --since a report of this boot");
  }
  Moves moves;
  moves.seconds = host.counters.time - host.earlier->time;
  for (const auto& [name, value] : now->values) {
    const auto old = before->values.find(name);
    if (is_of_closing(name)) continue;
    if (old == before->values.end()) {
      add_new_counter(name, value, &moves);
    } else {
      add_move(one, name, old->second, value, &moves);
    }
  }
  if (!moves.texts.empty()) return moved_counters(one, moves);
  return ok(one.label, totals + "; none moved in the last " + duration_text(moves.seconds));
}

}  // namespace

Observations run_error_counters(const Host& host) {
  Observations seen;
  for (const FabricPort& one : judged_ports(host)) seen.push_back(error_counters_of(host, one));
  if (seen.empty()) return {no_fabric_port(host)};
  return seen;
}

}  // namespace gdr::tools::doctor
