// Triggers of the faults at an event of the protocol: at the n-th request of a kind that reaches a
// certain moment. The requester's thread counts the events of both ends, so that the triggers lie
// in shared memory.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "softhca/model/limits.h"

namespace softhca {

// Moments of one request, in their order.
enum class Moment : uint32_t {
  kBegun,         // nothing of it has reached the other end
  kArrived,       // its data lies in the target's memory; its receive, if any, is not consumed
  kReceived,      // the receiver has its completion; the requester has no acknowledgement
  kAcknowledged,  // it is complete at the requester
};

enum class End : uint32_t { kRequester, kResponder };

// The requests whose target consumes a receive: those that complete at the responder.
constexpr uint32_t kReceivedOpcodes =
    1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM;

// One request at one of its moments.
struct RequestMoment {
  uint64_t wr_id;
  ibv_wr_opcode opcode;
  Moment moment;
};

// What the thread that meets the event does at once. The owner of the port learns of it from
// `fired` and does the rest.
enum class Cut : uint32_t {
  kNothing,
  kPortDown,
  kQpError,  // of the QP that the request belongs to, at the fault's end
  kStatus,   // the request completes with `status`
};

// Shared between processes.
struct EventTrigger {
  uint32_t device;  // index; with `port`, whose requests count
  uint32_t port;
  uint32_t opcodes;
  Moment moment;
  End end;
  uint64_t nth;
  Cut cut;
  uint32_t status;      // ibv_wc_status of kStatus, at `end`
  uint32_t cut_device;  // index; the fault's own, with `cut_port`
  uint32_t cut_port;    // 0: all ports of the device
  std::atomic<uint64_t> met;
  RequestMoment request;  // the n-th; valid once `fired` is set
  std::atomic<uint32_t> fired;
};

// How much of each request a process watches for its faults.
enum class Watch : uint32_t {
  kNothing,
  kCounts,  // what its own requests move, and whether they are acknowledged
  kEvents,  // every moment of every request, of its peers as well: one request at a time
};

// Of one process; its peers count in it.
struct TriggerTable {
  std::atomic<Watch> watch;
  std::atomic<uint32_t> count;
  EventTrigger entries[kMaxTriggers];
};

}  // namespace softhca
