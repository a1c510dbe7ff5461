// Everything that two ends exchange: the handle, the handshake frames on the TCP socket, the
// tables that each end keeps for the other to write, and the immediate data. docs/wire-protocol.md
// explains the sequence. All fields are little-endian; a change of layout or meaning raises
// kWireVersion.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gdr::transport::wire {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kMagic = 0x47524447;  // "GDRG"
inline constexpr uint16_t kWireVersion = 3;

inline constexpr int kMaxRails = 8;  // of one connection
inline constexpr int kMaxQps = 128;  // of one connection, over all rails
inline constexpr int kMaxGroup = 8;  // buffers of one grouped receive
inline constexpr int kSlots = 512;   // buffers that the clear-to-send ring holds, a power of two
inline constexpr size_t kMinChunkBytes = size_t{512} << 10;  // the least of a share but the last
inline constexpr int kMaxChunks = 8;                         // of a message that comes in shares
inline constexpr size_t kSplitAlignment = 128;  // LL128 lines must not be torn between QPs

using Secret = std::array<uint8_t, 16>;
using Gid = std::array<uint8_t, 16>;  // network order

// What listen() fills and NCCL carries to the other side: where to connect, and the secret that
// proves that the caller was given this handle.
struct Handle {
  uint32_t magic;
  uint16_t version;
  uint8_t ipv6;  // else IPv4, in the first four bytes of address
  uint8_t reserved0;
  std::array<uint8_t, 16> address;
  uint32_t scope_id;
  uint16_t tcp_port;
  uint8_t reserved1[2];
  Secret secret;
  // Zero on the wire. connect() keeps its place here between calls, since NCCL calls again with
  // the same buffer and nothing else.
  uint64_t connect_ticket;
  uint8_t reserved2[72];
};
static_assert(sizeof(Handle) == 128);

enum class FrameKind : uint8_t {
  kHello = 1,   // sender -> receiver: who I am, my QPs, my clear-to-send ring
  kReply = 2,   // receiver -> sender: my QPs, ready to receive
  kReady = 3,   // sender -> receiver: my QPs are up, clear-to-send may be written
  kRefuse = 4,  // either: this connection cannot be; the text says why
  kBye = 5,     // either: orderly close
  kFailed = 6,  // either: this connection is broken; the text says why
  kStateQuery = 7,
  kState = 8,  // what the peer is waiting for, as text
};

struct FrameHeader {
  uint32_t magic;
  uint16_t version;
  FrameKind kind;
  uint8_t reserved;
  uint32_t body_bytes;
};
static_assert(sizeof(FrameHeader) == 12);

inline constexpr size_t kMaxText = 1024;

struct RailAddress {
  char hca[64];  // zero-terminated
  Gid gid;
  uint32_t tables_rkey;
  uint16_t lid;
  uint8_t port;
  uint8_t ethernet;
  uint8_t mtu;  // ibv_mtu
  uint8_t gid_type;
  uint8_t gid_index;
  uint8_t rail;  // number of the rail plus one; 0: not known
};
static_assert(sizeof(RailAddress) == 92);

// Body of kHello and kReply.
struct EndPoint {
  Secret secret;
  char host[64];  // zero-terminated
  uint32_t pid;
  uint32_t first_psn;
  uint8_t rails;
  uint8_t reserved;
  uint16_t qps;  // over all rails; QP i belongs to rail i % rails
  uint32_t reserved1;
  uint64_t tables_address;
  uint64_t sequence_base;  // sender only; the clear-to-send of buffer i carries base + i
  std::array<uint32_t, kMaxQps> qp_numbers;
  std::array<RailAddress, kMaxRails> rail;
};
static_assert(sizeof(EndPoint) == 112 + 4 * kMaxQps + 92 * kMaxRails);

// One buffer of a posted receive, written by the receiver into the sender's ring. Buffers are
// counted over all receives of the connection; those of a grouped receive follow each other.
struct ClearToSend {
  uint64_t address;
  uint64_t bytes;  // the most that may be sent
  std::array<uint32_t, kMaxRails> rkey;
  int32_t tag;
  uint16_t group;  // buffers of the grouped receive
  // 1: what arrives is copied on. A message above kShareBytes then comes in shares of one size (the
  // last may be less), in order over one QP.
  uint16_t chunked;
  uint64_t sequence;  // last, since arrival of the slot is recognised by it
};
static_assert(sizeof(ClearToSend) == 64);

// What each end has in registered memory. An entry is filled in at the end that knows it and
// written to the same place of the other's.
struct Tables {
  std::array<ClearToSend, kSlots> ring;  // receiver -> sender
  // Sender -> receiver, by slot: bytes of a message whose end is told separately.
  std::array<uint64_t, kSlots> sizes;
};
static_assert(sizeof(Tables) == kSlots * (64 + 8));

// The 32 bits of immediate data that end each share of a message.
// slot of the buffer: 9 bits, shares of this message minus one: 7, lap of the ring: 15, size in the
// table: 1.
struct Immediate {
  uint32_t slot;
  uint32_t chunks;
  uint32_t generation;
  bool size_in_table;  // else the shares' byte counts add up to it
};

constexpr uint32_t encode(const Immediate& imm) {
  return imm.slot | (imm.chunks - 1) << 9 | imm.generation << 16 |
         static_cast<uint32_t>(imm.size_in_table) << 31;
}

constexpr Immediate decode(uint32_t bits) {
  return Immediate{bits & 511, (bits >> 9 & 127) + 1, bits >> 16 & 0x7fff, bits >> 31 != 0};
}

constexpr uint32_t slot_of(uint64_t buffer) { return static_cast<uint32_t>(buffer % kSlots); }
constexpr uint32_t generation_of(uint64_t buffer) {
  return static_cast<uint32_t>(buffer / kSlots) & 0x7fff;
}

static_assert(kSlots == 512 && kMaxQps == 128);

}  // namespace gdr::transport::wire
