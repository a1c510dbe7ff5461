// The configuration of faults: what happens, where, and when.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "softhca/model/addresses.h"
#include "softhca/model/event_config.h"
#include "softhca/model/json_fields.h"

namespace softhca {

enum class FaultKind {
  kPortDown,
  kPortUp,
  kQpError,
  kRegMrRefused,
  kRate,
  kModifyQpRefused,
  kGidChange,
  kLidChange,
  kClientReregister,
  kAckLost,
  kPacketsLost,
  kPortQueryBlocked,
  kPortFlap,
  kDeviceFatal,
  kDeviceRemoved,
  kCompletionError,
};

struct FaultConfig {
  FaultKind kind = FaultKind::kPortDown;
  std::string kind_name;  // as configured
  std::string device;
  uint32_t port = 1;
  // When: seconds after this process opened its first device, or instead, unless they are 0, what
  // this process's requests have moved over the port, or an event of the protocol.
  double at_s = 0;
  uint64_t after_bytes = 0;
  uint64_t after_ops = 0;
  std::optional<EventConfig> at_request;

  int error = 0;         // errno, for kRegMrRefused and kModifyQpRefused
  double rate_gbps = 0;  // for kRate
  double share = 0;      // for kRate: of the device's rate; 0: rate_gbps is the rate
  // Calls or requests that meet it, for kModifyQpRefused and kAckLost, 0: all; for kPortFlap, how
  // often the port goes down.
  uint32_t count = 0;
  ibv_qp_state to = IBV_QPS_RTR;  // for kModifyQpRefused
  uint32_t gid_index = 0;         // for kGidChange
  GidEntry gid;                   // the new entry; all zero: it is removed
  uint16_t lid = 0;               // for kLidChange
  double late_us = 0;             // for kAckLost: how late it arrives; 0: never
  uint32_t from_bytes = 0;        // for kPacketsLost, as the next one
  double for_ms = 0;              // 0: for good; also for kPortQueryBlocked
  double down_ms = 0;             // for kPortFlap, as the next one
  double up_ms = 0;
  bool silent = false;                          // for kDeviceFatal and kDeviceRemoved
  ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;  // for kCompletionError
};

// Reads the fields of a fault of its kind but `device` and `port`, which belong to the whole
// configuration. `path` is that of the fault. `ethernet`: whether that port is an Ethernet port.
void read_fault_fields(JsonFields* fields, const std::string& path, bool ethernet,
                       FaultConfig* fault);

}  // namespace softhca
