#include "transport/wire/frame_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace gdr::transport {
namespace {

size_t max_body_bytes(wire::FrameKind kind) {
  switch (kind) {
    case wire::FrameKind::kHello:
    case wire::FrameKind::kReply:
      return sizeof(wire::EndPoint);
    case wire::FrameKind::kRefuse:
    case wire::FrameKind::kFailed:
    case wire::FrameKind::kState:
      return wire::kMaxText;
    case wire::FrameKind::kPair:
      return sizeof(wire::PairStatement);
    case wire::FrameKind::kReopen:
    case wire::FrameKind::kKnown:
      return sizeof(wire::EndProof);
    case wire::FrameKind::kReady:
      return 1;
    default:
      return 0;
  }
}

Status unknown_fields(const char* where) {
  return fail(Code::kInternal, std::string("the peer sent ") + where +
                                   " with fields set that wire version " +
                                   std::to_string(wire::kWireVersion) +
                                   " does not know. Fix: install the same release on every node");
}

template <size_t kBytes>
bool is_zero(const uint8_t (&bytes)[kBytes]) {
  return std::all_of(bytes, bytes + kBytes, [](uint8_t byte) { return byte == 0; });
}

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

// Terminates a name that the peer sent, and replaces what is not printable: it goes into log lines.
template <size_t kBytes>
void clean_name(char (&name)[kBytes]) {
  name[kBytes - 1] = '\0';
  for (char* c = name; *c != '\0'; ++c) {
    if (!is_printable(*c)) *c = '?';
  }
}

Status check_queue_pair(const wire::QpAddress& qp, int rails) {
  if (qp.rail >= rails) {
    return fail(Code::kInternal, "the peer's handshake has a QP on a rail that it does not have");
  }
  const bool may_lack_qp = (qp.flags & wire::kQpStandby) != 0;
  if ((qp.number == 0 && !may_lack_qp) || qp.number >> 24 != 0) {
    return fail(Code::kInternal, "the peer's handshake has an impossible QP number");
  }
  const bool known = qp.ece_supported <= 1 && (qp.flags & ~wire::kQpFlags) == 0 && qp.reserved == 0;
  return known ? Status{} : unknown_fields("a QP");
}

Status check_rail(const wire::RailAddress& rail) {
  const bool known = (rail.flags & ~wire::kRailFlags) == 0 && is_zero(rail.reserved);
  return known ? Status{} : unknown_fields("a rail");
}

// Standby pairs come last, behind at least one that carries data, and only senders that recover
// have any: who uses the pairs relies on that. A reply has the pairs of the sender.
Status check_standby_pairs(wire::FrameKind kind, const wire::EndPoint& end) {
  const bool may_have = kind == wire::FrameKind::kReply || (end.flags & wire::kEndRecovers) != 0;
  bool standby = false;
  for (int i = 0; i < end.qps; ++i) {
    const bool was_standby = standby;
    standby = (end.qp[i].flags & wire::kQpStandby) != 0;
    if (standby ? i == 0 || !may_have : was_standby) {
      return fail(Code::kInternal,
                  "the peer's handshake has standby QPs where they are not allowed");
    }
  }
  return {};
}

// The numbers of rails and QPs are within their limits.
Status check_end_point(wire::FrameKind kind, const wire::EndPoint& end) {
  const bool known = (end.flags & ~wire::kEndFlags) == 0 && is_zero(end.reserved);
  if (!known || end.service_level > 15) return unknown_fields("a handshake");
  for (int i = 0; i < end.qps; ++i) {
    if (Status status = check_queue_pair(end.qp[i], end.rails); !status) return status;
  }
  if (Status status = check_standby_pairs(kind, end); !status) return status;
  for (int r = 0; r < end.rails; ++r) {
    if (Status status = check_rail(end.rail[r]); !status) return status;
  }
  return {};
}

Status validate(const wire::FrameHeader& header) {
  if (header.magic != wire::kMagic) {
    return fail(Code::kInternal, "the peer does not speak this protocol");
  }
  if (Status status = check_version(header.version); !status) return status;
  if (header.reserved != 0) return unknown_fields("a frame");
  if (header.body_bytes > max_body_bytes(header.kind)) {
    return fail(Code::kInternal, "the peer sent a frame that is too large for its kind");
  }
  return {};
}

// Empties a buffer. That of a handshake's frame is several KiB, and the channel is kept for as long
// as the connection, whose other frames are small and seldom. There stays room for kBye, so that a
// connection is closed without memory as well.
void release(std::vector<uint8_t>& buffer) noexcept {
  constexpr size_t kKept = 64;
  buffer.clear();
  if (buffer.capacity() <= kKept) return;
  try {
    std::vector<uint8_t> small;
    small.reserve(kKept);
    buffer.swap(small);
  } catch (const std::bad_alloc&) {
    return;  // it keeps its memory
  }
}

}  // namespace

Status check_version(uint16_t peer) {
  if (peer == wire::kWireVersion) return {};
  return fail(Code::kInvalidUsage,
              "the peer runs wire version " + std::to_string(peer) + ", this side " +
                  std::to_string(wire::kWireVersion) +
                  ". Fix: install the same release of nccl-net-gdr on every node");
}

std::string Frame::text() const {
  std::string text(body.begin(), body.end());
  for (char& c : text) {
    if (!is_printable(c)) c = '?';
  }
  return text;
}

std::optional<wire::PairStatement> Frame::pair_statement() const {
  wire::PairStatement statement{};
  if (body.size() != sizeof(statement)) return {};
  std::memcpy(&statement, body.data(), sizeof(statement));
  return wire::is_known(statement) ? std::optional(statement) : std::nullopt;
}

std::optional<wire::EndProof> Frame::proof() const {
  wire::EndProof proof;
  if (body.size() != sizeof(proof)) return {};
  std::memcpy(&proof, body.data(), sizeof(proof));
  return proof;
}

Result<wire::EndPoint> Frame::end_point() const {
  wire::EndPoint end{};
  if (body.size() != sizeof(end)) {
    return fail(Code::kInternal, "the peer sent a handshake of the wrong size");
  }
  std::memcpy(&end, body.data(), sizeof(end));
  clean_name(end.host);
  for (wire::RailAddress& rail : end.rail) clean_name(rail.hca);
  if (end.rails < 1 || end.rails > wire::kMaxRails || end.qps < 1 || end.qps > wire::kMaxQps) {
    return fail(Code::kInternal, "the peer's handshake has an invalid number of rails or QPs");
  }
  if (Status status = check_end_point(kind, end); !status) return forward_error(status);
  return end;
}

Result<bool> FrameChannel::connect(const sockaddr_storage& to, const sockaddr_storage& from) {
  if (!valid()) {
    Result<UniqueFd> socket = start_connect_tcp(to, from);
    if (!socket) return forward_error(socket);
    socket_ = std::move(*socket);
    peer_ = to;
  }
  Result<bool> connected = finish_connect_tcp(fd());
  if (!connected) socket_.reset();
  return connected;
}

void FrameChannel::queue(wire::FrameKind kind, const void* body, size_t bytes) {
  if (send_error_ != 0) return;
  wire::FrameHeader header{wire::kMagic, wire::kWireVersion, kind, 0, static_cast<uint32_t>(bytes)};
  auto append = [this](const void* data, size_t size) {
    auto* begin = static_cast<const uint8_t*>(data);
    outgoing_.insert(outgoing_.end(), begin, begin + size);
  };
  append(&header, sizeof(header));
  if (bytes > 0) append(body, bytes);
}

void FrameChannel::queue_text(wire::FrameKind kind, std::string_view text) {
  text = text.substr(0, wire::kMaxText);
  queue(kind, text.data(), text.size());
}

Result<bool> FrameChannel::flush() { return send_queued(0); }

// MSG_MORE lets the kernel hold the bytes back, which shutdown() ends.
Result<bool> FrameChannel::flush_and_end() {
  Result<bool> sent = send_queued(MSG_MORE);
  (void)shutdown(socket_.get(), SHUT_WR);
  return sent;
}

bool FrameChannel::replace_socket(FrameChannel other) {
  if (dup3(other.fd(), fd(), O_CLOEXEC) < 0) return false;
  outgoing_ = std::move(other.outgoing_);
  sent_ = other.sent_;
  incoming_ = std::move(other.incoming_);
  send_error_ = other.send_error_;
  return true;
}

// flags: MSG_MORE or none.
Result<bool> FrameChannel::send_queued(int flags) {
  while (send_error_ == 0 && sent_ < outgoing_.size()) {
    ssize_t n = ::send(socket_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_,
                       flags | MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) {
      send_error_ = errno;
    } else {
      sent_ += n;
    }
  }
  sent_ = 0;
  release(outgoing_);
  if (send_error_ == 0) return true;
  return fail_errno(Code::kRemote, "sending on the handshake socket failed", send_error_);
}

bool FrameChannel::has_ended(bool or_broken) const {
  pollfd entry{socket_.get(), POLLRDHUP, 0};
  int unread = 0;
  if (poll(&entry, 1, 0) != 1 || (!or_broken && (entry.revents & POLLERR) != 0)) return false;
  return ioctl(socket_.get(), FIONREAD, &unread) != 0 || unread == 0;
}

// Reads until `wanted` bytes are buffered or no more have arrived.
Status FrameChannel::read_available(size_t wanted) {
  while (incoming_.size() < wanted) {
    size_t have = incoming_.size();
    incoming_.resize(wanted);
    ssize_t n = ::recv(socket_.get(), incoming_.data() + have, wanted - have, MSG_DONTWAIT);
    int err = errno;
    incoming_.resize(have + (n > 0 ? n : 0));
    if (n > 0) continue;
    if (n == 0) return fail(Code::kRemote, "the handshake socket was closed");
    if (err == EINTR) continue;
    if (err == EAGAIN || err == EWOULDBLOCK) return {};
    return fail_errno(Code::kRemote, "reading the handshake socket failed", err);
  }
  return {};
}

Result<std::optional<Frame>> FrameChannel::receive() {
  wire::FrameHeader header;
  if (Status status = read_available(sizeof(header)); !status) return forward_error(status);
  if (incoming_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, incoming_.data(), sizeof(header));
  if (Status status = validate(header); !status) return forward_error(status);
  size_t whole = sizeof(header) + header.body_bytes;
  if (Status status = read_available(whole); !status) return forward_error(status);
  if (incoming_.size() < whole) return std::nullopt;
  Frame frame{header.kind, {incoming_.begin() + sizeof(header), incoming_.end()}};
  release(incoming_);
  return frame;
}

}  // namespace gdr::transport
