// The layout of everything that the two ends of a connection exchange: the handle that NCCL
// carries, the frames of the handshake on the TCP socket, the tables that each end writes in the
// other's memory by RDMA, and the immediate data that ends each chunk. docs/wire-protocol.md
// explains the sequence. All fields are little-endian unless noted. A change of layout or meaning
// requires a new kWireVersion. Reserved fields and bits are zero when they are sent, and an end
// that finds another value refuses it, so that a later version may give them a meaning.
//
// The first eight bytes of the handle and of a frame's header are the same in every version, so
// that ends of different versions recognise each other and refuse with a text.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace gdr::transport::wire {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kMagic = 0x47524447;  // "GDRG"
inline constexpr uint16_t kWireVersion = 9;

inline constexpr int kMaxRails = 8;  // of one connection
inline constexpr int kMaxQps = 128;  // of one connection, over all rails
inline constexpr int kMaxGroup = 8;  // buffers of one grouped receive
// Entries of the clear-to-send ring, one per buffer; a power of two. As many buffers as NCCL has
// outstanding: 32 receives of up to kMaxGroup.
inline constexpr int kSlots = 256;
// Bytes. A message is split between QPs only at multiples of this: NCCL's LL128 protocol reads a
// 128-byte line as soon as its flag is there, so one line must arrive by one write.
inline constexpr size_t kSplitAlignment = 128;

// Random but for the gap, which is zero.
//
// A rank that has fallen back to one of NCCL's own transports gives a handle of this plugin to that
// transport's connect. Both of NCCL's begin with a socket address, whose family the magic number is
// not, and refuse it. But they look at bytes 40 to 43 of the handle first, which are in the secret:
// for IB they say how far the connection has come, and for Socket how many sockets it has, so that
// a negative number would be a connection without sockets, made at once and never usable.
using Secret = std::array<uint8_t, 16>;
inline constexpr size_t kSecretGap = 8;
inline constexpr size_t kSecretGapBytes = 4;
using Gid = std::array<uint8_t, 16>;  // in network byte order

// NCCL's connection handle: listen() fills it and NCCL carries it to the sender. It has the
// listener's TCP address and the secret that authenticates the sender: a hello without it is
// dropped.
struct Handle {
  uint32_t magic;
  uint16_t version;
  uint16_t tcp_port;
  std::array<uint8_t, 16> address;  // in network byte order; that of IPv4 is in the first four
  // Of an IPv6 link-local address at the listener; the sender uses its own interface's instead.
  uint32_t scope_id;
  uint8_t ipv6;  // 1: address is IPv6; 0: IPv4
  // Of a listener that has several rails or standby rails and recovers pairs, 2 to kMaxRails in
  // all: the sender may ask for several pairs and for standby ones. Else zero.
  uint8_t active_rails;
  uint8_t standby_rails;
  uint8_t reserved0;
  Secret secret;
  // Zero when it is carried. connect() stores here which unfinished connection the handle belongs
  // to: NCCL calls connect() again until it returns a comm, and passes only this buffer each time.
  uint64_t connect_ticket;
  // Of the listening device's port, so that the sender can choose a device in the same subnet
  // (NCCL_IB_SUBNET_AWARE_ROUTING); else null.
  Gid gid;
  uint8_t reserved1[56];
};
static_assert(sizeof(Handle) == 128);
static_assert(offsetof(Handle, magic) == 0 && offsetof(Handle, version) == 4);
static_assert(offsetof(Handle, secret) + kSecretGap == 40);

// Names a connection, and proves which of its ends the process is that sends it. Body of kReopen
// and kKnown.
using EndProof = std::array<uint8_t, 12>;

// Every second byte of what both ends know from the handshake, so that an end which has shown its
// 80 random bits has not shown the other's. sequence_base: EndPoint's.
inline EndProof proof_of(bool sender, const Secret& secret, uint64_t sequence_base) {
  EndProof proof{};
  uint8_t known[2 * sizeof(proof)];
  static_assert(sizeof(known) == sizeof(secret) + sizeof(sequence_base));
  std::memcpy(known, secret.data(), sizeof(secret));
  std::memcpy(known + sizeof(secret), &sequence_base, sizeof(sequence_base));
  for (size_t i = 0; i < proof.size(); ++i) proof[i] = known[2 * i + (sender ? 0 : 1)];
  return proof;
}

// Takes no time that depends on where they differ.
inline bool is_same(const EndProof& a, const EndProof& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

// The kind of a frame, with the direction and the body.
enum class FrameKind : uint8_t {
  kHello = 1,  // sender -> receiver, EndPoint: secret, rails, QPs, service class, tables
  kReply = 2,  // receiver -> sender, EndPoint: the same; its QPs are ready to receive
  // sender -> receiver: the sender's QPs are ready, clear-to-send may be written. Body: one byte, 1
  // if the sender's socket has the address that the reply states, else 0.
  kReady = 3,
  kRefuse = 4,      // either, text: the handshake failed for that reason
  kBye = 5,         // either: orderly close
  kFailed = 6,      // either, text: the connection failed for that reason
  kStateQuery = 7,  // either: asks for kState, for the log of a stalled connection
  kState = 8,       // either, text: what this end is waiting for
  kPair = 9,        // either, PairStatement: the step of this end in the recovery of a pair
  // The first frame of a socket to the process of the other end, EndProof: the kept one has ended.
  // The sender's is to be the kept socket; the receiver asks whether the sender is still there.
  kReopen = 10,
  kKnown = 11,      // answer, EndProof: this process has that end of the connection
  kUnknown = 12,    // answer: it does not
  kKeepAlive = 13,  // either: bytes for proxies that close idle sockets
};

// Precedes each frame's body.
struct FrameHeader {
  uint32_t magic;
  uint16_t version;
  FrameKind kind;
  uint8_t reserved;
  uint32_t body_bytes;
};
static_assert(sizeof(FrameHeader) == 12);
static_assert(offsetof(FrameHeader, magic) == 0 && offsetof(FrameHeader, version) == 4);

// Bytes of a text body at most.
inline constexpr size_t kMaxText = 1024;

// The port of one end on one of its rails.
struct RailAddress {
  char hca[64];  // zero-terminated
  Gid gid;
  uint32_t tables_rkey;  // of this end's Tables on this rail's HCA
  uint16_t lid;          // 0 on RoCE
  uint8_t port;
  uint8_t ethernet;   // 1: RoCE, 0: InfiniBand
  uint8_t mtu;        // an ibv_mtu; both ends use the smaller one
  uint8_t gid_type;   // a GidType
  uint8_t gid_index;  // in this end's GID table
  uint8_t rail;       // rail number plus one; 0: unknown
  uint8_t needs_grh;  // 1: the port requires a GRH (IBV_QPF_GRH_REQUIRED)
  uint8_t reserved[3];
};
static_assert(sizeof(RailAddress) == 96);

// What may change of a RailAddress while a connection lives: a subnet manager gives the port
// another LID, DHCP another GID.
struct PortAddress {
  Gid gid;
  uint16_t lid;
  uint8_t mtu;
  uint8_t gid_type;
  uint8_t needs_grh;
  uint8_t reserved;

  bool operator==(const PortAddress&) const = default;
};
static_assert(sizeof(PortAddress) == 22);

inline PortAddress port_address(const RailAddress& rail) {
  return {rail.gid, rail.lid, rail.mtu, rail.gid_type, rail.needs_grh, 0};
}
inline RailAddress at_address(RailAddress rail, const PortAddress& port) {
  rail.gid = port.gid;
  rail.lid = port.lid;
  rail.mtu = port.mtu;
  rail.gid_type = port.gid_type;
  rail.needs_grh = port.needs_grh;
  return rail;
}

// Enhanced connection establishment: an ibv_ece, by which the HCAs of both ends agree on options of
// their vendor for one QP.
struct Ece {
  uint32_t vendor_id;
  uint32_t options;
  uint32_t comp_mask;
};

// One QP of one end. QP i of the sender is connected to QP i of the receiver: they are pair i. Each
// end names the rail of its own on which the QP is, so that both may have different numbers of
// rails.
struct QpAddress {
  uint32_t number;  // 24 bits; 0: of a standby pair of which this end has no QP
  // kHello: what the sender's HCA offers. kReply: what the receiver's HCA has accepted of it. Zero
  // without ece_supported.
  Ece ece;
  uint8_t ece_supported;  // 1: `ece` is valid
  uint8_t rail;           // index into EndPoint::rail of the same end
  // 1: the pair carries no data and no clear-to-send while one that does not stand by is usable.
  // The sender sets it, and the receiver replies the same.
  uint8_t standby;
  uint8_t reserved;
};
static_assert(sizeof(QpAddress) == 20);

// Body of kHello and kReply. The first field is the secret in every version.
struct EndPoint {
  Secret secret;
  char host[64];            // zero-terminated
  uint32_t pid;             // for error texts, like host
  uint32_t first_psn;       // 24 bits: the first packet sequence number of every QP of this end
  uint64_t tables_address;  // of this end's Tables
  // Of the sender, random: buffer i's ClearToSend::sequence is base + i. The reply repeats it.
  uint64_t sequence_base;
  uint16_t qps;  // over all rails; the receiver has as many as the sender asks for
  uint8_t rails;
  uint8_t recovers;  // 1: this end recovers pairs, if the other one does, too
  // kHello: of what the sender writes; the receiver uses the service level for its direction, too,
  // and the traffic class unless it has one of its own (NCCL_IB_FIFO_TC). kReply: of what the
  // receiver writes.
  uint8_t service_level;  // 0 to 15
  uint8_t traffic_class;  // of the GRH, RoCE only
  uint16_t tcp_port;      // at which this end's process takes kReopen; 0: it does not
  // kReply: FNV-1a of address and port of the sender's socket, as the receiver sees them, in text:
  // "192.0.2.1:4711", "[fe80::1]:4711". kHello: zero.
  uint64_t seen_from;
  uint8_t reserved[16];
  std::array<QpAddress, kMaxQps> qp;
  std::array<RailAddress, kMaxRails> rail;
};
static_assert(sizeof(EndPoint) == 136 + 20 * kMaxQps + 96 * kMaxRails);
static_assert(offsetof(EndPoint, secret) == 0);

// Flags of ClearToSend::group_and_flags. NCCL sends and expects other sizes where it uses a buffer
// that the user has registered, and decides on that at each end alone. So the sender refuses a
// message between a user's buffer and one of NCCL's own where the latter's end has declined a
// user's buffer.
inline constexpr uint32_t kUsersBuffer = 1 << 8;   // GPU memory of the user's own
inline constexpr uint32_t kAfterDecline = 2 << 8;  // NCCL's own, a user's buffer was declined

// Clear-to-send: one buffer of a posted receive, which the receiver writes into the sender's ring.
// Buffers are numbered from 0 over all receives of the connection; those of a grouped receive have
// consecutive numbers. Buffer i is in slot i % kSlots.
struct ClearToSend {
  uint64_t address;
  uint64_t bytes;                        // size of the buffer
  std::array<uint32_t, kMaxRails> rkey;  // by the receiver's rail
  int32_t tag;                           // NCCL's; a send is matched by it within a group
  uint32_t group_and_flags;  // bits 0 to 7: buffers of the grouped receive; 10 and above: reserved
  // Last, since the sender polls it: an RDMA write of so few bytes becomes visible in ascending
  // order.
  uint64_t sequence;
};
constexpr int group_of(const ClearToSend& slot) {
  return static_cast<int>(slot.group_and_flags & 0xff);
}
// Whether a slot has neither flags nor anything that this version does not know.
constexpr bool is_plain(const ClearToSend& slot) { return slot.group_and_flags <= 0xff; }
// Whether this version knows all that a slot has set.
constexpr bool is_known(const ClearToSend& slot) {
  return (slot.group_and_flags & ~(0xff | kUsersBuffer | kAfterDecline)) == 0;
}
static_assert(sizeof(ClearToSend) == 64 && offsetof(ClearToSend, sequence) == 56);

// Why an end has taken a pair down.
enum class PairReason : uint8_t {
  kNone = 0,      // it has not since it was usable
  kCompletion,    // a work request failed; PairStatement::status
  kPost,          // the HCA refused a work request
  kPortDown,      // the port of the pair's rail
  kDeviceLost,    // the HCA reported a fatal error, or was removed
  kQueuePair,     // the HCA reported a fatal error of the QP
  kNotConnected,  // the handshake did not connect the pair
  kProbe,         // the probe of a standby or returned pair failed; PairStatement::status
  kPeer,          // only because the other end has
  kWithdrawn,     // the end gave the rail or the pair up for good; PairStatement::status
  kAddress,      // the other end has stated another address than the one that this end connected to
  kRailMissing,  // the end could not create the pair's rail; PairStatement::status
};
inline constexpr auto kLastPairReason = PairReason::kRailMissing;

// How far an end is with the recovery of a pair. The two ends agree by it on what is lost and on
// when the pair may be used again; docs/wire-protocol.md explains the steps. An end sends the same
// statement as a kPair frame and into the other's Tables.
struct PairStatement {
  // Counts the statements of an end about the pair from 1 on; 0: nothing was stated yet. The HCA
  // writes in ascending order, so that the statement in a table is whole if both numbers agree.
  uint32_t serial_first;
  uint32_t step;  // 2 e: ready in epoch e; 2 e + 1: down in epoch e
  uint32_t seen;  // the highest step of the other end that this one knows
  uint16_t pair;
  uint8_t asks;       // 1: the other end is to state the pair, too
  PairReason reason;  // of the last time that the pair went down
  // Of the receiver, from its step 1 on: the immediates that arrived over the pair in the last
  // epoch that ended. Zero from the sender.
  uint64_t arrived;
  // An ibv_wc_status, or an errno value with kWithdrawn and kRailMissing; 0: none.
  uint8_t status;
  uint8_t reserved0;
  // Of the end's port, with which it has connected the pair last.
  PortAddress address;
  uint8_t reserved1[4];
  uint32_t serial_last;
};
// No more than the 60 bytes that a sender posts inline.
static_assert(sizeof(PairStatement) == 56 && offsetof(PairStatement, serial_last) == 52);
static_assert(offsetof(PairStatement, address) == 26);

// Whether this version knows all that a statement has set, and it is whole.
constexpr bool is_known(const PairStatement& statement) {
  uint8_t reserved = statement.reserved0 | statement.address.reserved;
  for (uint8_t byte : statement.reserved1) reserved |= byte;
  return statement.serial_first == statement.serial_last && statement.serial_first != 0 &&
         statement.pair < kMaxQps && statement.asks <= 1 && statement.reason <= kLastPairReason &&
         statement.address.needs_grh <= 1 && reserved == 0;
}

// What both ends state about a pair. No statement crosses a cache line.
struct PairStatements {
  alignas(64) PairStatement of_sender;
  alignas(64) PairStatement of_receiver;
};

// Of a probe that shows whether a path carries data: at least a packet of the largest MTU.
inline constexpr size_t kProbeBytes = 4096;

// The epochs of a pair whose probes have arrived last. Each end writes its own behind its probe.
struct ProbedEpochs {
  uint32_t by_sender;
  uint32_t by_receiver;
};

// The registered memory of each end. An end fills an entry in its own tables and writes it to the
// same offset of the other end's.
struct Tables {
  // Receiver -> sender, by slot.
  std::array<ClearToSend, kSlots> ring;
  // Sender -> receiver, by slot: the bytes of a message whose immediate has size_in_table.
  std::array<uint64_t, kSlots> sizes;
  // What the other end's probes write, and nobody reads.
  std::array<uint8_t, kProbeBytes> scratch;
  std::array<ProbedEpochs, kMaxQps> probed;  // by pair
  // By pair. Last, since an end may register only those of the pairs that the connection has.
  std::array<PairStatements, kMaxQps> pairs;
};
static_assert(sizeof(Tables) == kSlots * (64 + 8) + kProbeBytes + kMaxQps * (8 + 2 * 64));

// The 32 bits of immediate data that end each chunk of a message, from the least significant bit:
//   bits 0-7    slot
//   bits 8-14   chunks - 1
//   bits 15-30  stamp:
//     bits 15-19  generation
//     bits 20-23  epoch of the pair
//     bits 24-30  reserved
//   bit 31      size_in_table
// A message of one chunk whose end came alone may state its size here instead, if bits 30 and 31
// are set:
//   bits 8-14   the lower bits of size_code
//   bits 24-29  the upper bits of size_code
struct Immediate {
  uint32_t slot;    // of the buffer
  uint32_t chunks;  // writes with immediate that this message consists of, 1 to kMaxQps
  uint32_t stamp;   // stamp_of(buffer, epoch), so that a message of an earlier use is recognised
  // The message's size is in Tables::sizes, as this immediate came alone behind the data (adaptive
  // routing). False: the size is the sum of the byte counts of the chunks' completions, unless
  // size_is_coded.
  bool size_in_table;
  // The message's size is size_of_code(size_code) for its buffer: this immediate came alone behind
  // the data, too, and the write that has it has no bytes.
  bool size_is_coded = false;
  uint32_t size_code = 0;
};

constexpr uint32_t encode(const Immediate& imm) {
  if (imm.size_is_coded) {
    return imm.slot | (imm.size_code & 127) << 8 | (imm.stamp & 0x1ff) << 15 |
           (imm.size_code >> 7) << 24 | 3u << 30;
  }
  return imm.slot | (imm.chunks - 1) << 8 | imm.stamp << 15 |
         static_cast<uint32_t>(imm.size_in_table) << 31;
}

constexpr bool is_size_coded(uint32_t bits) { return bits >> 30 == 3; }

// Of bits that are not is_size_coded().
constexpr Immediate decode_chunk(uint32_t bits) {
  return Immediate{bits & 255, (bits >> 8 & 127) + 1, bits >> 15 & 0xffff, bits >> 31 != 0};
}

constexpr Immediate decode(uint32_t bits) {
  if (!is_size_coded(bits)) return decode_chunk(bits);
  const uint32_t code = (bits >> 8 & 127) | (bits >> 24 & 63) << 7;
  return Immediate{bits & 255, 1, bits >> 15 & 0x1ff, false, true, code};
}

// The code of a message's size has 13 bits. 0 is the size of its buffer, which both ends know, and
// any other number so many units, which are the larger the larger the buffer is: 128 bytes below
// 1 MiB, 1 KiB from 4 to 8 MiB, and so on. NCCL's larger messages are as large as the buffer or a
// multiple of that, but for the last of an operation whose count is odd.
inline constexpr int kSizeCodeBits = 13;
constexpr uint64_t size_unit(uint64_t capacity) {
  const int excess = std::bit_width(capacity / kSplitAlignment) - kSizeCodeBits;
  return uint64_t{kSplitAlignment} << (excess > 0 ? excess : 0);
}
// Returns none where the size has no code. bytes: at most the capacity of the buffer.
constexpr std::optional<uint32_t> size_code(uint64_t bytes, uint64_t capacity) {
  if (bytes == capacity) return 0;
  const uint64_t unit = size_unit(capacity);
  if (bytes == 0 || bytes % unit != 0) return {};
  return static_cast<uint32_t>(bytes / unit);
}
constexpr uint64_t size_of_code(uint32_t code, uint64_t capacity) {
  return code == 0 ? capacity : code * size_unit(capacity);
}

// The slot of a buffer, and how often the ring was used up before it, modulo 32. At most as many
// buffers as the ring has slots are outstanding at a time, and messages of one QP arrive in order
// and once, so that a message which comes for another use of its slot is one use away.
constexpr uint32_t slot_of(uint64_t buffer) { return static_cast<uint32_t>(buffer % kSlots); }
constexpr uint32_t generation_of(uint64_t buffer) {
  return static_cast<uint32_t>(buffer / kSlots) & 31;
}
// The epoch of a pair: how often it has been recovered, modulo 16.
constexpr uint32_t immediate_epoch(uint32_t epoch) { return epoch & 15; }
// What the immediates of a buffer's message carry beside the slot: the receiver compares all of it
// at once, and so refuses another generation, another epoch and reserved bits.
constexpr uint32_t stamp_of(uint64_t buffer, uint32_t epoch = 0) {
  return generation_of(buffer) | immediate_epoch(epoch) << 5;
}

static_assert(kSlots == 256 && kMaxQps == 128);  // the widths above

}  // namespace gdr::transport::wire
