// The wr_id of the work requests of a connection that recovers pairs, and what the failure of one
// means. An error completion has only its wr_id, status, QP number and vendor error
// (ibv_poll_cq(3)), so that the wr_id has to say what the work request was, and which recovery of
// its pair it belongs to.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/wire/wire.h"

namespace gdr::transport {

enum class WorkKind : uint8_t {
  kChunk = 1,    // data, the write with immediate that ends a chunk
  kClearToSend,  // slots of the ring
  kReceive,      // of an immediate
  kFlush,        // the loopback read
  kProbe,        // of a returned or standby pair, or of a link without a socket
  kStatement,    // a wire::PairStatement
};

// 64 bits: the ordinal in bits 0 to 31, the epoch in 32 to 47, the pair in 48 to 55, the kind in 56
// to 63.
struct WorkId {
  WorkKind kind;
  uint32_t pair;     // below wire::kMaxQps
  uint32_t epoch;    // of the pair, modulo 2^16
  uint32_t ordinal;  // counts the work requests of the kind on the pair in the epoch, modulo 2^32

  bool operator==(const WorkId&) const = default;
};

constexpr uint64_t encode(const WorkId& id) {
  return id.ordinal | static_cast<uint64_t>(id.epoch & 0xffff) << 32 |
         static_cast<uint64_t>(id.pair) << 48 | static_cast<uint64_t>(id.kind) << 56;
}

constexpr WorkId decode_work_id(uint64_t bits) {
  return WorkId{static_cast<WorkKind>(bits >> 56), static_cast<uint32_t>(bits >> 48 & 0xff),
                static_cast<uint32_t>(bits >> 32 & 0xffff), static_cast<uint32_t>(bits)};
}

// Whether a completion belongs to the pair's epoch `epoch`. Those of an earlier one are taken from
// the CQ after the pair was recovered, and concern nothing any more.
constexpr bool is_of_epoch(const WorkId& id, uint32_t epoch) {
  return id.epoch == (epoch & 0xffff);
}

// The number of the work request in 64 bits, from a number that is less than 2^31 away.
constexpr uint64_t whole_ordinal(uint32_t ordinal, uint64_t near) {
  return near + static_cast<int64_t>(static_cast<int32_t>(ordinal - static_cast<uint32_t>(near)));
}

static_assert(wire::kMaxQps <= 256);  // the width of the pair

// Whether a completion with that status, which is no success, shows that the pair of its work
// request is lost (docs/glossary.md): the path between the two HCAs, or one of these, has failed,
// and another pair may carry what is missing. Otherwise the work request itself was wrong at one of
// the ends: a key, a length, a protection domain. The same request would fail over every pair, and
// to try might hide a defect or damage data, so that the connection fails; and so it does by a
// status that this version does not know.
inline bool loses_pair(ibv_wc_status status) {
  switch (status) {
    // The QP was in ERROR already: the cause is in another completion, in an asynchronous event, or
    // at the other end.
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
    // Soft-RoCE reports this one where the kernel has removed the route, as for an interface that
    // is set down, and does so before the port's event (rxe_req.c, rxe_requester). If the request
    // itself is wrong, it fails over every pair, also over those that return, and the connection
    // ends by fails_over_every_path().
    case IBV_WC_LOC_QP_OP_ERR:
      return true;
    default:
      return false;
  }
}

}  // namespace gdr::transport
