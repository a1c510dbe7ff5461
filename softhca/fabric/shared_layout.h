// The layout of a process's arena, the file that its peers map to deliver into its queues: a
// header, then tables of QPs, CQs, registrations and event queues, then a heap.
//
// The owner allocates and frees; peers only follow indices and offsets. An entry is in use when its
// `live` (or `key`) is not 0. The rest of an entry is written before `live` is set, and afterwards
// under its mutex. Fields named *_ns are CLOCK_MONOTONIC times.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softhca/fabric/shared_mutex.h"
#include "softhca/model/addresses.h"
#include "softhca/model/event_trigger.h"
#include "softhca/model/limits.h"

namespace softhca {

constexpr uint64_t kArenaMagic = 0x3161636874666f73;  // "softhca1"
constexpr uint32_t kLayoutVersion = 9;

// A QPN is slot << kQpIndexBits | index. Slot 0 is not used: QPN 0 and 1 are reserved for
// management (the SMI and the GSI).
constexpr uint32_t kMaxSlots = 1024;
// An lkey or rkey is (slot & 0xff) << 24 | index << 8 | generation.
constexpr uint32_t kMaxMrs = 1u << 16;
constexpr uint32_t kMaxCqs = 1u << 14;
constexpr uint32_t kMaxEventQueues = 512;
constexpr uint32_t kMaxEvents = kMaxQps;  // unread, of one queue: one of each QP or CQ
constexpr uint32_t kCopyRequests = 256;

inline uint32_t qpn_of(uint32_t slot, uint32_t index) { return slot << kQpIndexBits | index; }
inline uint32_t qpn_slot(uint32_t qpn) { return qpn >> kQpIndexBits; }
inline uint32_t qpn_index(uint32_t qpn) { return qpn & (kMaxQps - 1); }
inline uint32_t key_index(uint32_t key) { return key >> 8 & (kMaxMrs - 1); }
inline uint32_t key_of(uint32_t slot, uint32_t index, uint32_t generation) {
  return (slot & 0xff) << 24 | index << 8 | (generation & 0xff);
}

struct SharedPort {
  std::atomic<uint32_t> state;  // ibv_port_state
  std::atomic<uint16_t> lid;
  uint16_t flid;        // 0: none
  uint16_t router_lid;  // 0: none
  uint8_t link_layer;
  uint8_t grh_required;
  uint64_t subnet_prefix;
  uint32_t max_msg_sz;
  uint32_t gid_count;              // entries of the table, those without a GID included
  mutable SharedMutex gids_mutex;  // of `gids`
  GidEntry gids[kMaxGids];
  // The modelled link is busy until these times.
  std::atomic<uint64_t> send_busy_ns;
  std::atomic<uint64_t> receive_busy_ns;
};

struct SharedMr {
  std::atomic<uint32_t> key;    // 0 while not registered
  std::atomic<uint32_t> users;  // accesses in progress; deregistration waits for them
  uint32_t pd;
  uint32_t access;
  uint64_t iova;
  uint64_t length;
  uint64_t address;  // of the first byte, in the owner's address space
  int32_t gpu;       // CUDA device, or -1 for host memory
};

// One completion. `release` is the send queue position up to which polling it frees slots (only of
// send requests).
struct Cqe {
  uint64_t wr_id;
  uint64_t release;
  uint32_t status;
  uint32_t opcode;
  uint32_t byte_len;
  uint32_t imm;
  uint32_t qp_num;
  uint32_t src_qp;
  uint32_t wc_flags;
  uint16_t slid;
  uint8_t sl;
  uint8_t is_send;
};

enum class Armed : uint32_t { kNo, kSolicited, kAny };

struct SharedCq {
  SharedMutex mutex;  // producers, and arming
  std::atomic<uint32_t> live;
  uint32_t entries;  // a power of two
  uint32_t limit;    // completions that fit, at most `entries`
  uint64_t ring;     // offset of Cqe[entries]
  uint32_t event_queue;
  uint32_t async_queue;
  uint32_t event_queued;  // an event of this CQ waits in event_queue
  Armed armed;
  std::atomic<uint32_t> overrun;
  alignas(64) std::atomic<uint64_t> tail;
  alignas(64) std::atomic<uint64_t> head;
};

struct SharedEvent {
  uint32_t type;    // ibv_event_type for an async queue; unused for a completion channel
  uint32_t object;  // CQ index, QP index or port number
};

// The events of one completion channel or one context. A datagram to the owner's socket signals
// "not empty"; at most one is in the socket, which `signalled` records.
struct SharedEventQueue {
  SharedMutex mutex;
  std::atomic<uint32_t> live;
  uint32_t generation;
  uint32_t signalled;
  uint32_t head;
  uint32_t tail;
  SharedEvent ring[kMaxEvents];
};

struct RecvWqe {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
  ibv_sge sge[1];  // as many as SharedQp::rq_stride has room for
};

struct SharedQp {
  // Held by whoever changes the state or consumes receives: the peer's delivery, or the owner.
  SharedMutex mutex;
  std::atomic<uint32_t> live;
  std::atomic<uint32_t> state;    // ibv_qp_state
  std::atomic<uint32_t> inbound;  // transfers in progress into or out of the owner's memory
  std::atomic<uint32_t> silent;   // its device has failed: nothing completes any more
  std::atomic<uint32_t> epoch;    // incremented by every change of the address or the destination
  uint32_t qpn;
  uint32_t dest_qpn;
  uint32_t pd;
  uint32_t access;
  uint32_t rq_psn;  // of the packet that is expected next, under mutex
  uint32_t device;
  uint32_t port;
  uint32_t global;  // addressed by GID instead of LID
  uint16_t dlid;
  uint8_t sl;
  uint8_t min_rnr_timer;
  uint8_t path_mtu;  // ibv_mtu
  uint8_t max_dest_rd_atomic;
  uint8_t hop_limit;
  ibv_gid dgid;
  ibv_gid sgid;           // while `global`, as the next
  uint32_t gid_type;      // ibv_gid_type of sgid: of RoCE the version
  uint32_t ece_options;   // those in use (ibv_set_ece)
  uint32_t ece_required;  // those that have to be in use
  uint32_t recv_cq;
  uint32_t async_queue;
  uint64_t rq;                                // offset of the ring of RecvWqe
  uint32_t rq_stride;                         // bytes
  uint32_t rq_entries;                        // a power of two
  uint32_t rq_taken;                          // last before rq_head: of transfers in progress
  alignas(64) std::atomic<uint64_t> rq_tail;  // owner
  alignas(64) std::atomic<uint64_t> rq_head;  // under mutex
};

// A copy that only the owner of the arena can make. kFree -> kClaimed -> kReady by the requester,
// kRunning -> kDone or kFailed by the owner's engine, kFree by the requester.
enum class CopyState : uint32_t { kFree, kClaimed, kReady, kRunning, kDone, kFailed };

struct CopyRequest {
  std::atomic<CopyState> state;
  uint32_t requester_slot;
  uint64_t requester_instance;
  uint64_t staging;  // offset in the requester's arena
  uint64_t address;  // in the owner's address space
  uint64_t bytes;
  int32_t gpu;     // of `address`
  uint32_t fetch;  // 0: staging -> address, 1: address -> staging
  uint32_t hint;   // spreads requests over lanes
};

struct ArenaHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t slot;
  uint32_t pid;
  std::atomic<uint32_t> alive;
  uint64_t instance;              // random: names this process on the fabric
  uint64_t instance_address;      // where the owner keeps `instance` in its private memory
  std::atomic<uint64_t> staging;  // offset of the staging area, 0 while it is not allocated
  uint64_t staging_bytes;
  SharedMutex atomics;  // RDMA atomics on this process's memory
  alignas(64) std::atomic<uint32_t> engine_wake;
  std::atomic<uint32_t> engine_sleeps;
  std::atomic<uint32_t> copy_requests_ready;
  SharedPort ports[kMaxDevices][kMaxPorts];
  TriggerTable triggers;
  CopyRequest copy_requests[kCopyRequests];
};

// Offsets of the tables. The file is sparse: only entries in use take memory.
constexpr uint64_t align_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }
constexpr uint64_t kPage = 4096;
constexpr uint64_t kQpTable = align_up(sizeof(ArenaHeader), kPage);
constexpr uint64_t kCqTable = align_up(kQpTable + sizeof(SharedQp) * kMaxQps, kPage);
constexpr uint64_t kMrTable = align_up(kCqTable + sizeof(SharedCq) * kMaxCqs, kPage);
constexpr uint64_t kEventTable = align_up(kMrTable + sizeof(SharedMr) * kMaxMrs, kPage);
constexpr uint64_t kHeap =
    align_up(kEventTable + sizeof(SharedEventQueue) * kMaxEventQueues, 1 << 20);
constexpr uint64_t kArenaBytes = 1ull << 30;

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(kHeap < kArenaBytes / 4);

}  // namespace softhca
