#include "transport/wire/frame_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace gdr::transport {
namespace {

// Who takes a frame checks the size that its kind has.
size_t max_body_bytes(wire::FrameKind kind) {
  const bool is_handshake = kind == wire::FrameKind::kHello || kind == wire::FrameKind::kReply;
  return is_handshake ? sizeof(wire::EndPoint) : wire::kMaxText;
}

bool is_zero(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
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

bool stands_by(const wire::QpAddress& qp) { return qp.standby != 0; }

bool is_known(const wire::QpAddress& qp, int rails) {
  return qp.rail < rails && (qp.number != 0 || stands_by(qp)) && qp.number >> 24 == 0 &&
         qp.ece_supported <= 1 && qp.standby <= 1 && qp.reserved == 0;
}

bool is_known(const wire::RailAddress& rail) {
  return rail.needs_grh <= 1 && is_zero(rail.reserved);
}

// Standby pairs come last, behind at least one that carries data, and only senders that recover
// have any: who uses the pairs relies on that. A reply has the pairs of the sender.
bool has_standby_pairs_last(wire::FrameKind kind, const wire::EndPoint& end) {
  const std::span qps(end.qp.data(), end.qps);
  const auto first = std::ranges::find_if(qps, stands_by);
  const bool may_have = kind == wire::FrameKind::kReply || end.recovers != 0;
  return first == qps.end() ||
         (may_have && first != qps.begin() && std::all_of(first, qps.end(), stands_by));
}

// Whether counts and indices are within their limits, and this version knows all that is set.
bool is_known(wire::FrameKind kind, const wire::EndPoint& end) {
  if (end.rails < 1 || end.rails > wire::kMaxRails || end.qps < 1 || end.qps > wire::kMaxQps) {
    return false;
  }
  const std::span qps(end.qp.data(), end.qps);
  const std::span rails(end.rail.data(), end.rails);
  return end.recovers <= 1 && is_zero(end.reserved) && end.service_level <= 15 &&
         std::ranges::all_of(qps, [&](const auto& qp) { return is_known(qp, end.rails); }) &&
         std::ranges::all_of(rails, [](const auto& rail) { return is_known(rail); }) &&
         has_standby_pairs_last(kind, end);
}

Status validate(const wire::FrameHeader& header) {
  if (header.magic != wire::kMagic) {
    return fail(Code::kInternal, "the peer does not speak this protocol");
  }
  if (Status status = check_version(header.version); !status) return status;
  const bool known = header.reserved == 0 && header.body_bytes <= max_body_bytes(header.kind);
  return known ? Status{} : fail_unknown("frame");
}

template <class Body>
std::optional<Body> as(const std::vector<uint8_t>& bytes) {
  Body body;
  if (bytes.size() != sizeof(body)) return {};
  std::memcpy(&body, bytes.data(), sizeof(body));
  return body;
}

// Empties a buffer. That of a handshake's frame is several KiB, and the channel is kept for as long
// as the connection, whose other frames are small and seldom. There stays room for kBye, so that a
// connection is closed without memory as well.
void release(std::vector<uint8_t>& buffer) {
  constexpr size_t kKept = 64;
  if (buffer.capacity() > kKept) {
    buffer.resize(kKept);
    buffer.shrink_to_fit();  // where there is no memory for the copy, nothing happens
  }
  buffer.clear();
}

}  // namespace

Status check_version(uint16_t peer) {
  if (peer == wire::kWireVersion) return {};
  return fail(Code::kInvalidUsage,
              "the peer runs wire version " + std::to_string(peer) + ", this side " +
                  std::to_string(wire::kWireVersion) +
                  ". Fix: install the same release of nccl-net-gdr on every node");
}

tl::unexpected<Error> fail_unknown(const char* what) {
  return fail(Code::kInternal, "the peer sent a " + std::string(what) + " that wire version " +
                                   std::to_string(wire::kWireVersion) +
                                   " does not allow. Fix: install the same release on every node");
}

std::string Frame::text() const {
  std::string text(body.begin(), body.end());
  for (char& c : text) {
    if (!is_printable(c)) c = '?';
  }
  return text;
}

std::optional<wire::PairStatement> Frame::pair_statement() const {
  const auto statement = as<wire::PairStatement>(body);
  return statement && wire::is_known(*statement) ? statement : std::nullopt;
}

std::optional<wire::EndProof> Frame::proof() const { return as<wire::EndProof>(body); }

Result<wire::EndPoint> Frame::end_point() const {
  auto end = as<wire::EndPoint>(body);
  if (!end || !is_known(kind, *end)) return fail_unknown("handshake");
  clean_name(end->host);
  for (wire::RailAddress& rail : end->rail) clean_name(rail.hca);
  return *end;
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

tl::unexpected<Error> FrameChannel::refuse(Error error) {
  queue_text(wire::FrameKind::kRefuse, error.text);
  (void)flush();
  return tl::unexpected<Error>(std::move(error));
}

bool FrameChannel::replace_socket(FrameChannel other) {
  if (dup3(other.fd(), fd(), O_CLOEXEC) < 0) return false;
  std::swap(socket_, other.socket_);
  *this = std::move(other);
  return true;
}

Result<bool> FrameChannel::flush() {
  while (send_error_ == 0 && sent_ < outgoing_.size()) {
    ssize_t n = ::send(socket_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
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

bool FrameChannel::has_ended() const {
  pollfd entry{socket_.get(), POLLRDHUP, 0};
  int unread = 0;
  if (poll(&entry, 1, 0) != 1) return false;
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
