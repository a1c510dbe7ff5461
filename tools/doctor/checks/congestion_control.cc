// ECN and the traffic class of RoCE, as far as sysfs shows them. PFC is known to the vendor's
// tools.
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

// What is known of one port. Priorities are bits.
struct CongestionSettings {
  // Of mlx5's driver from MLNX_OFED and DOCA: whether the NIC answers marks (roce_np), and slows
  // down by the answers (roce_rp).
  std::optional<uint8_t> ecn_notifies, ecn_reacts;
  std::optional<int> global_class;  // of that driver: overrides that of every QP

  bool operator==(const CongestionSettings&) const = default;
  bool is_known() const { return ecn_notifies || ecn_reacts; }
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

CongestionSettings congestion_settings(const Host& host, const FabricPort& one) {
  CongestionSettings settings;
  settings.global_class = global_class(one);
  if (one.port->netdevs.empty()) return settings;
  const std::string& netdev = one.port->netdevs.front();
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

std::string congestion_text(const CongestionSettings& settings, int traffic_class) {
  std::string text = priorities_text("ECN", settings.ecn_notifies);
  if (settings.ecn_notifies != settings.ecn_reacts) {
    text = priorities_text("ECN (roce_np)", settings.ecn_notifies) + ", " +
           priorities_text("ECN (roce_rp)", settings.ecn_reacts);
  }
  if (settings.global_class) {
    text += fmt::format(", the driver's traffic class {}", *settings.global_class);
  }
  return text +
         (traffic_class < 0 ? ", NCCL_IB_TC unset" : fmt::format(", NCCL_IB_TC={}", traffic_class));
}

// What is wrong with the settings of one port; nothing where nothing is known to be.
std::optional<Observation> congestion_fault(const FabricPort& one,
                                            const CongestionSettings& settings, int traffic_class,
                                            const std::string& evidence) {
  if (settings.global_class && traffic_class >= 0 && *settings.global_class != traffic_class) {
    return warning(one.label, evidence + ": the driver's overrides NCCL's",
                   fmt::format("echo {} > {}/tc/{}/traffic_class, or set NCCL_IB_TC to the same",
                               traffic_class, one.hca->folder.string(), one.port->number));
  }
  if (settings.ecn_notifies == 0 || settings.ecn_reacts == 0) {
    const std::string netdev = topo::shell_word(one.port->netdevs.front());
    return warning(one.label, evidence,
                   fmt::format("where the switches mark by ECN, for the priority of NCCL_IB_TC: "
                               "echo 1 > /sys/class/net/{0}/ecn/roce_np/enable/PRIORITY; echo 1 > "
                               "/sys/class/net/{0}/ecn/roce_rp/enable/PRIORITY",
                               netdev));
  }
  return {};
}

Observation congestion_control_of(const FabricPort& one, const CongestionSettings& settings,
                                  const CongestionSettings& first, int traffic_class) {
  const std::string evidence = congestion_text(settings, traffic_class);
  if (one.hca->is_virtual) return ok(one.label, "a device of software, without ECN");
  if (const auto fault = congestion_fault(one, settings, traffic_class, evidence)) return *fault;
  if (settings != first) {
    return warning(
        one.label,
        fmt::format("{}; other rails have {}", evidence, congestion_text(first, traffic_class)),
        "set them alike on all rails");
  }
  if (settings.ecn_reacts.value_or(0) != 0) return ok(one.label, evidence);
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
  CongestionSettings first;
  for (const FabricPort& one : ports) {
    const CongestionSettings settings = congestion_settings(host, one);
    if (!first.is_known()) first = settings;
  }
  Observations seen;
  for (const FabricPort& one : ports) {
    seen.push_back(
        congestion_control_of(one, congestion_settings(host, one), first, traffic_class));
  }
  return seen;
}

}  // namespace gdr::tools::doctor
