// What a user may choose about the connections of the transport: addresses, retries, queue pairs
// and how messages are split over them. A communicator has its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "transport/device/gid_selection.h"

namespace gdr::transport {

// One unit of work that the observer sees: a chunk that a sender writes, or a buffer that a
// receiver waits for.
struct ObservedWorkRequest {
  int rail;     // of this end of the connection
  uint64_t id;  // number of the receiver's buffer, from 0, the same at both ends
  // Senders: the ibv_wr_opcode of the write that carries the data. Receivers: the ibv_wc_opcode of
  // the completions that end it.
  int opcode;
  // Senders: the QP of the write. Receivers: that of the clear-to-send, as the data may arrive over
  // several.
  uint32_t qp_number;
  size_t bytes;  // senders: of the chunk; receivers: room in the buffer
};

// Both functions are called by the thread that calls isend, irecv and test, or that closes the
// comm; they must neither block nor throw. Null: nobody observes.
struct WorkRequestObserver {
  // `parent` is what the owner of the comm named as the origin of the message, never null. Returns
  // what completed() is to be called with, once; null: completed() is not called.
  void* (*posted)(void* context, void* parent, const ObservedWorkRequest& work) = nullptr;
  // The work has completed, or will not, since the connection has failed or is closed.
  void (*completed)(void* context, void* event) = nullptr;
  void* context = nullptr;  // handed to both

  // Ends what posted() has returned.
  void end(void* event) const {
    if (event != nullptr) completed(context, event);
  }
};

// The defaults are those of NCCL's built-in IB transport (net_ib: ncclParamIb*). Each comment names
// the variable that sets the field; docs/environment.md explains them all.
struct ConnectionOptions {
  GidPreference gid;
  uint8_t ack_timeout = 20;  // NCCL_IB_TIMEOUT: 4.096 us * 2^n until the HCA sends again
  uint8_t retry_count = 7;   // NCCL_IB_RETRY_CNT: 0 to 7, the width of the QP's attribute
  // What to do where moving a QP to its next state fails with ETIMEDOUT, as it does on RoCE while
  // the peer's address is not resolved: how often to try again, and the pause before the first
  // retry; before the n-th it is n times as long.
  int modify_retries = 34;                            // NCCL_IB_MQP_RETRY_CNT
  std::chrono::milliseconds modify_retry_pause{100};  // NCCL_IB_MQP_RETRY_SLEEP_MSEC
  bool modify_retry_all = false;  // NCCL_IB_MQP_RETRY_ALL: after every error, not only ETIMEDOUT
  bool ece = true;          // NCCL_IB_ECE_ENABLE: options of the vendor are agreed on for each QP
  uint16_t pkey_index = 0;  // NCCL_IB_PKEY: index into the port's P_Key table
  // NCCL_IB_SL and NCCL_IB_TC, or the communicator's traffic class: of the data, which senders
  // write. Unset: 0.
  std::optional<uint8_t> service_level;
  std::optional<uint8_t> traffic_class;
  // NCCL_IB_FIFO_TC: of what receivers write. Unset: that of the sender.
  std::optional<uint8_t> clear_to_send_traffic_class;
  int qps_per_connection = 1;  // NCCL_IB_QPS_PER_CONNECTION, 1 to wire::kMaxQps
  // NCCL_IB_SPLIT_DATA_ON_QPS: each message is split over all QPs. Otherwise whole messages take
  // the QPs in turn.
  bool split_data_on_qps = false;
  // NCCL_IB_ADAPTIVE_ROUTING: the fabric may reorder the packets of a QP, so that the end of a
  // message cannot travel with its data. Unset: true on InfiniBand, false on RoCE.
  std::optional<bool> adaptive_routing;
  // NCCL_IB_AR_THRESHOLD, bytes: with adaptive routing, larger messages end in a write of their
  // own.
  size_t adaptive_routing_threshold = 8192;
  bool flush_disabled = false;  // NCCL_GDR_FLUSH_DISABLE
  // GDR_NCCL_FAILOVER: connections keep standby rails where there are some, and go on when a rail
  // is lost, if the other end does so, too.
  bool failover = true;
  // What has to be left of the memory that may be locked where a connection gets standby rails, in
  // bytes: for others, and for what it registers later. 0 is for tests.
  size_t spare_memory = size_t{6} << 20;
  // For how many connections a check of that holds. With an unlimited memory lock, for all: a check
  // pins the memory, which takes longer than the rest of a connection's set-up.
  int connections_per_memory_check = 8;
  // The clock of the set-up. Only tests choose another.
  Now now = Clock::now;
  // Of each connection's work requests.
  WorkRequestObserver observer;
  std::string owner;  // whose connection it is, for the log of a stall; "": unknown
};

}  // namespace gdr::transport
