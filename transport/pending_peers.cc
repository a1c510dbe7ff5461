#include "transport/pending_peers.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/log.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {
namespace {

// Peers of a listener that have not shown the secret. NCCL connects one sender to each listener.
// Each peer has a descriptor, of which a process often has 1024, and there are many listeners.
constexpr size_t kMaxUnknown = 8;
// Connections that one call accepts: the length of the socket's queue, so that a call empties it
// and a peer that connects all the time cannot hold the caller up.
constexpr int kMaxAccepts = 1024;
// From the connection to the complete hello. A sender connects and sends in different calls of
// NCCL's, which has others to make in between.
constexpr std::chrono::seconds kHelloTimeout{20};

bool is_exhaustion(int err) {
  return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

bool is_temporary(int err) { return err == EAGAIN || err == EWOULDBLOCK || err == EINTR; }

}  // namespace

PendingPeers::PendingPeers(const wire::Secret& secret, const HandshakeRegistry& handshakes)
    : handshakes_(handshakes) {
  static_assert(offsetof(wire::EndPoint, secret) == 0);
  const wire::FrameHeader header{wire::kMagic, wire::kWireVersion, wire::FrameKind::kHello, 0,
                                 sizeof(wire::EndPoint)};
  std::memcpy(expected_.data(), &header, sizeof(header));
  std::memcpy(expected_.data() + sizeof(header), secret.data(), secret.size());
}

Result<std::vector<Hello>> PendingPeers::advance(int listening_fd) {
  std::vector<Hello> hellos;
  Status accepted = accept_all(listening_fd, &hellos);
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    const bool stays = read(*peer, &hellos) && handshakes_.now() - peer->since < kHelloTimeout;
    peer = stays ? std::next(peer) : peers_.erase(peer);
  }
  if (!accepted && hellos.empty()) return forward_error(accepted);
  return hellos;
}

Status PendingPeers::accept_all(int listening_fd, std::vector<Hello>* hellos) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    Result<std::optional<UniqueFd>> fd = accept_tcp(listening_fd);
    if (!fd) return on_accept_failed(std::move(fd.error()), hellos);
    failing_since_.reset();
    if (!fd->has_value()) break;
    peers_.push_back(Peer{FrameChannel(std::move(**fd)), handshakes_.now()});
    if (!read(peers_.back(), hellos)) peers_.pop_back();
    evict(kMaxUnknown, hellos);
  }
  return {};
}

// A failure may concern one connection, which a firewall or a security module rejects, or pass. A
// process without free descriptors gives up those of pending peers, and leaves connections in the
// socket's queue until there are some again.
Status PendingPeers::on_accept_failed(Error error, std::vector<Hello>* hellos) {
  if (is_exhaustion(error.sys_errno)) evict(0, hellos);
  const Clock::time_point now = handshakes_.now();
  if (!failing_since_) failing_since_ = now;
  if (now - *failing_since_ < kHelloTimeout) return {};
  return tl::unexpected<Error>(std::move(error));
}

// Drops the oldest of the unknown peers beyond so many, after a last look at what each has sent.
void PendingPeers::evict(size_t limit, std::vector<Hello>* hellos) {
  auto unknown = static_cast<size_t>(
      std::ranges::count_if(peers_, [](const Peer& peer) { return !peer.verified; }));
  for (auto peer = peers_.begin(); unknown > limit;) {
    const bool was_unknown = !peer->verified;
    if (was_unknown) --unknown;
    const bool stays = !was_unknown || (read(*peer, hellos) && peer->verified);
    peer = stays ? std::next(peer) : peers_.erase(peer);
  }
}

bool PendingPeers::read(Peer& peer, std::vector<Hello>* hellos) const {
  if (!peer.verified) {
    uint8_t bytes[sizeof(expected_)];
    const ssize_t n = recv(peer.channel.fd(), bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0) return n < 0 && is_temporary(errno);
    if (!may_be_hello(bytes, static_cast<size_t>(n))) return false;
    peer.verified = n == sizeof(bytes);
    if (!peer.verified) return true;
  }
  Result<std::optional<Frame>> frame = peer.channel.receive();
  if (!frame) return false;
  if (!frame->has_value()) return true;
  Result<wire::EndPoint> sender = (*frame)->end_point();
  if (sender) {
    hellos->push_back(Hello{std::move(peer.channel), *sender});
    return false;
  }
  GDR_WARN("a sender on the handshake port is refused: %s", sender.error().text.c_str());
  (void)peer.channel.refuse(std::move(sender.error()));
  return false;
}

// Judges the first bytes that a peer has sent. A sender of another wire version sends none: it
// refuses the handle. The secret is compared only as a whole: to drop a peer at its first wrong
// byte would let it find the bytes one by one.
bool PendingPeers::may_be_hello(const uint8_t* bytes, size_t count) const {
  const size_t compared =
      count < expected_.size() ? std::min(count, sizeof(wire::FrameHeader)) : count;
  return std::memcmp(bytes, expected_.data(), compared) == 0;
}

}  // namespace gdr::transport
