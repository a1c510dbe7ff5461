#include "plugin/config/not_applicable.h"

#include <string>

#include "plugin/config/values.h"

namespace gdr::config {
namespace {

constexpr Severity kInfo = Severity::kInfo;
constexpr Severity kWarning = Severity::kWarning;

constexpr char kOwnFailover[] =
    "failover is the plugin's own (GDR_NCCL_FAILOVER), and has no such setting";
constexpr char kSmallHandshake[] =
    "the handshake exchanges a few hundred bytes with the kernel's buffer sizes";

}  // namespace

const std::vector<NotApplicable>& not_applicable() {
  static const std::vector<NotApplicable> rows = {
      {"NCCL_IB_CUDA_SUPPORT", -2, 1, kWarning,
       "no release since NCCL 2.4 reads it; GPUDirect RDMA is on where it is possible",
       "set NCCL_NET_GDR_LEVEL=LOC to turn GPUDirect RDMA off"},
      {"NCCL_IB_DEVICE_PCI_ORDER", 1, 1, kWarning,
       "devices are offered in order of their rails, which follow PCI addresses, not in that of "
       "the "
       "verbs library",
       "set GDR_NCCL_RAIL_MAP to order them"},
      {"NCCL_IB_GDR_LEVEL", -2, -2, kWarning, "no release since NCCL 2.4 reads it",
       "set NCCL_NET_GDR_LEVEL"},
      {"NCCL_IB_OOO_RQ", 0, 0, kWarning,
       "receive queues are in order; data may arrive in any order with NCCL_IB_ADAPTIVE_ROUTING=1",
       "set NCCL_IB_ADAPTIVE_ROUTING=1 instead"},
      {"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", -2, 1, kInfo,
       "receive work requests are always posted before they are needed", ""},
      {"NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME", -2, 0, kInfo,
       "the wire protocol is the plugin's own: the immediate data names the receive that a message "
       "belongs to",
       ""},
      {"NCCL_IB_RESILIENCY_PORT_FAILOVER", 0, 1, kInfo,
       "the plugin's own failover is on unless GDR_NCCL_FAILOVER=0", ""},
      {"NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS", 1, 1, kInfo, kOwnFailover, ""},
      {"NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY", 10, 10, kInfo, kOwnFailover, ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY", 0, 1, kInfo,
       "the plugin itself uses a rail again that has returned, unless GDR_NCCL_FAILOVER=0", ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT", 5000, 5000, kInfo, kOwnFailover, ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL", 500, 500, kInfo, kOwnFailover,
       ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE", 5, 5, kInfo, kOwnFailover, ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE", 5, 5, kInfo, kOwnFailover, ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT", 4000, 4000, kInfo, kOwnFailover, ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX", 5, 5, kInfo, kOwnFailover, ""},
      {"NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", 200, 200, kInfo, kOwnFailover, ""},
      {"NCCL_IB_USE_INLINE", 0, 1, kInfo,
       "clear-to-send messages are always posted inline where the HCA can", ""},
      {"NCCL_SOCKET_MAGIC", 0x564ab9f2fc4b9d6c, 0x564ab9f2fc4b9d6c, kInfo,
       "the handshake is authenticated by a random secret of each listener", ""},
      {"NCCL_SOCKET_POLL_TIMEOUT_MSEC", 0, 0, kInfo,
       "the handshake waits for nothing inside a call", ""},
      {"NCCL_SOCKET_RCVBUF", -1, -1, kInfo, kSmallHandshake, ""},
      {"NCCL_SOCKET_SNDBUF", -1, -1, kInfo, kSmallHandshake, ""},
  };
  return rows;
}

void check_not_applicable(const NotApplicable& variable, const std::string& value,
                          Findings* findings) {
  const int64_t number = nccl_number(value).value_or(variable.default_value);
  if (number == variable.default_value || number == variable.ours) return;
  findings->push_back({FindingKind::kNoEffect, variable.severity, variable.name,
                       quoted(value) + " has no effect on the plugin: " + variable.reason,
                       variable.fix});
}

}  // namespace gdr::config
