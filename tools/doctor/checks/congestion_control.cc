// PFC, ECN and the traffic class of RoCE, as far as a host shows them without the vendor's tools.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "plugin/config/load.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/facts/host.h"
#include "tools/inspection/labels.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::doctor {
namespace {

constexpr int kPriorities = 8;
constexpr int kTrafficClassPerDscp = 4;  // the two lowest bits are those of ECN
constexpr int kDscpPerPriority = 8;      // in the default map of mlx5 and of most switches

// What is known of one port. Priorities are bits.
struct LosslessSettings {
  std::optional<uint8_t> pfc;
  // Of mlx5's driver from MLNX_OFED and DOCA: whether the NIC answers marks (roce_np), and slows
  // down by the answers (roce_rp).
  std::optional<uint8_t> ecn_notifies, ecn_reacts;
  std::optional<int> global_class;  // of that driver: overrides that of every QP

  bool operator==(const LosslessSettings&) const = default;
  bool is_known() const { return pfc || ecn_notifies || ecn_reacts; }
};

std::optional<uint8_t> ecn_priorities(const Host& host, const std::string& netdev,
                                      const char* role) {
  uint8_t bits = 0;
  for (int priority = 0; priority < kPriorities; ++priority) {
    const std::string line =
        host.line(fmt::format("/sys/class/net/{}/ecn/{}/enable/{}", netdev, role, priority));
    if (line != "0" && line != "1") return {};
    if (line == "1") bits = static_cast<uint8_t>(bits | 1u << priority);
  }
  return bits;
}

// "Global tclass=106"
std::optional<int> global_class(const FabricPort& one) {
  constexpr std::string_view kSign = "tclass=";
  const std::string line = topology::first_line(one.hca->folder / "tc" /
                                                std::to_string(one.port->number) / "traffic_class");
  const size_t at = line.find(kSign);
  if (at == std::string::npos) return {};
  int value = -1;
  const auto [stop, error] =
      std::from_chars(line.data() + at + kSign.size(), line.data() + line.size(), value);
  (void)stop;
  return error == std::errc() && value >= 0 && value <= 255 ? std::optional(value) : std::nullopt;
}

LosslessSettings lossless_settings(const Host& host, const FabricPort& one) {
  LosslessSettings settings;
  settings.global_class = global_class(one);
  if (one.port->netdevs.empty()) return settings;
  const std::string& netdev = one.port->netdevs.front();
  if (const RdmaNetdev* found = netdev_of(host, *one.port)) settings.pfc = found->pfc;
  settings.ecn_notifies = ecn_priorities(host, netdev, "roce_np");
  settings.ecn_reacts = ecn_priorities(host, netdev, "roce_rp");
  return settings;
}

std::string priorities_text(const char* what, const std::optional<uint8_t>& bits) {
  if (!bits) return fmt::format("{} unknown", what);
  std::vector<int> priorities;
  for (int priority = 0; priority < kPriorities; ++priority) {
    if ((*bits >> priority & 1) != 0) priorities.push_back(priority);
  }
  if (priorities.empty()) return fmt::format("{} off", what);
  return fmt::format("{} on for {} {}", what, priorities.size() == 1 ? "priority" : "priorities",
                     fmt::join(priorities, ","));
}

std::string lossless_text(const LosslessSettings& settings, int traffic_class) {
  std::string text = priorities_text("PFC", settings.pfc);
  if (settings.ecn_notifies == settings.ecn_reacts) {
    text += ", " + priorities_text("ECN", settings.ecn_notifies);
  } else {
    text += ", " + priorities_text("ECN (roce_np)", settings.ecn_notifies) + ", " +
            priorities_text("ECN (roce_rp)", settings.ecn_reacts);
  }
  if (settings.global_class) {
    text += fmt::format(", the driver's traffic class {}", *settings.global_class);
  }
  return text +
         (traffic_class < 0 ? ", NCCL_IB_TC unset" : fmt::format(", NCCL_IB_TC={}", traffic_class));
}

int lowest_priority(uint8_t bits) {
  int priority = 0;
  while ((bits >> priority & 1) == 0) ++priority;
  return priority;
}

// A traffic class of that priority, with the sign of a sender that knows ECN: 106 for priority 3,
// which is DSCP 26.
int usual_class(int priority) {
  return (priority * kDscpPerPriority + 2) * kTrafficClassPerDscp + 2;
}

// What is wrong with the settings of one port; nothing where nothing is known to be.
std::optional<Observation> lossless_fault(const FabricPort& one, const LosslessSettings& settings,
                                          int traffic_class, const std::string& evidence) {
  if (settings.global_class && traffic_class >= 0 && *settings.global_class != traffic_class) {
    return warning(one.label, evidence + ": the driver's overrides NCCL's",
                   fmt::format("echo {} > {}/tc/{}/traffic_class, or set NCCL_IB_TC to the same",
                               traffic_class, one.hca->folder.string(), one.port->number));
  }
  const uint8_t pfc = settings.pfc.value_or(0);
  const bool is_unmarked = traffic_class <= 0 && settings.global_class.value_or(0) == 0;
  if (pfc != 0 && (pfc & 1) == 0 && is_unmarked) {
    return warning(
        one.label, evidence + ": NCCL's packets are of priority 0, without PFC",
        fmt::format("export NCCL_IB_TC={}, or the traffic class that the switches expect",
                    usual_class(lowest_priority(pfc))));
  }
  if (settings.ecn_notifies == 0 || settings.ecn_reacts == 0) {
    const std::string netdev = topo::shell_word(one.port->netdevs.front());
    const int priority = pfc != 0 ? lowest_priority(pfc) : 0;
    return warning(one.label, evidence,
                   fmt::format("echo 1 > /sys/class/net/{0}/ecn/roce_np/enable/{1}; echo 1 > "
                               "/sys/class/net/{0}/ecn/roce_rp/enable/{1}, where the switches mark "
                               "by ECN",
                               netdev, priority));
  }
  return {};
}

Observation congestion_control_of(const FabricPort& one, const LosslessSettings& settings,
                                  const LosslessSettings& first, int traffic_class) {
  const std::string evidence = lossless_text(settings, traffic_class);
  if (one.hca->is_virtual) return ok(one.label, "a device of software, without PFC and ECN");
  if (const auto fault = lossless_fault(one, settings, traffic_class, evidence)) return *fault;
  if (settings != first) {
    return warning(
        one.label,
        fmt::format("{}; other rails have {}", evidence, lossless_text(first, traffic_class)),
        "set them alike on all rails: mlnx_qos -i INTERFACE, or dcb pfc");
  }
  const bool is_on = settings.pfc.value_or(0) != 0 || settings.ecn_reacts.value_or(0) != 0;
  if (is_on) return ok(one.label, evidence);
  return unknown(one.label, evidence,
                 "mlnx_qos -i INTERFACE, or dcb pfc show dev INTERFACE and the NIC's tool for ECN; "
                 "and the same settings of the switches");
}

}  // namespace

Observations run_congestion_control(const Host& host) {
  std::vector<FabricPort> ports = judged_ports(host);
  std::erase_if(ports, [](const FabricPort& one) { return !one.port->is_ethernet(); });
  if (ports.empty()) {
    return {nothing_on(host, "there is no RoCE port to look at")};
  }
  const int traffic_class = config::load(host.environment, nullptr).traffic_class;
  // The port with the most known settings is what the others are compared with.
  LosslessSettings first;
  for (const FabricPort& one : ports) {
    const LosslessSettings settings = lossless_settings(host, one);
    if (!first.is_known()) first = settings;
  }
  Observations seen;
  for (const FabricPort& one : ports) {
    seen.push_back(congestion_control_of(one, lossless_settings(host, one), first, traffic_class));
  }
  return seen;
}

}  // namespace gdr::tools::doctor
