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
constexpr int kAcceptBatch = 64;
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
  for (int accepted = 0; accepted < kMaxAccepts;) {
    Result<int> some = accept_some(listening_fd);
    if (!some && hellos.empty()) return forward_error(some);
    if (!some) break;
    read_all(&hellos);
    evict();
    if (*some < kAcceptBatch) break;
    accepted += *some;
  }
  return hellos;
}

Result<int> PendingPeers::accept_some(int listening_fd) {
  for (int count = 0; count < kAcceptBatch; ++count) {
    Result<std::optional<UniqueFd>> fd = accept_tcp(listening_fd);
    if (!fd) return on_accept_failed(std::move(fd.error()));
    failing_since_.reset();
    exhausted_ = false;
    if (!fd->has_value()) return count;
    peers_.push_back(Peer{FrameChannel(std::move(**fd)), handshakes_.now()});
  }
  return kAcceptBatch;
}

// A failure may concern one connection, which a firewall or a security module rejects, or pass. A
// process without free descriptors gives up those of pending peers, and leaves connections in the
// socket's queue until there are some again.
Result<int> PendingPeers::on_accept_failed(Error error) {
  const Clock::time_point now = handshakes_.now();
  exhausted_ = is_exhaustion(error.sys_errno);
  if (!failing_since_) failing_since_ = now;
  if (now - *failing_since_ < kHelloTimeout) return 0;
  return tl::unexpected<Error>(std::move(error));
}

void PendingPeers::read_all(std::vector<Hello>* hellos) {
  const Clock::time_point now = handshakes_.now();
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    const auto current = peer++;
    if (!read(*current, hellos)) {
      peers_.erase(current);
    } else if (now - current->since >= kHelloTimeout) {
      drop(current, "it sent no hello in time");
    }
  }
}

bool PendingPeers::read(Peer& peer, std::vector<Hello>* hellos) {
  if (peer.verified) return read_verified(peer, hellos);
  uint8_t bytes[sizeof(expected_)];
  const ssize_t n = recv(peer.channel.fd(), bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
  if (n <= 0) return n < 0 && is_temporary(errno);
  switch (judge(bytes, static_cast<size_t>(n))) {
    case Verdict::kIncomplete:
      return true;
    case Verdict::kVerified:
      peer.verified = true;
      return read_verified(peer, hellos);
    case Verdict::kWrong:
      break;
  }
  ++dropped_;
  GDR_TRACE(
      log::kNet,
      "dropped a pending peer on the handshake port: it sent no hello with the handle's secret");
  return false;
}

// Decides by the first bytes that a peer has sent. A sender of another wire version sends none: it
// refuses the handle. The secret is compared only as a whole: to drop a peer at its first wrong
// byte would let it find the bytes one by one.
PendingPeers::Verdict PendingPeers::judge(const uint8_t* bytes, size_t count) const {
  const size_t compared =
      count < expected_.size() ? std::min(count, sizeof(wire::FrameHeader)) : expected_.size();
  if (std::memcmp(bytes, expected_.data(), compared) != 0) return Verdict::kWrong;
  return compared == expected_.size() ? Verdict::kVerified : Verdict::kIncomplete;
}

bool PendingPeers::read_verified(Peer& peer, std::vector<Hello>* hellos) {
  Result<std::optional<Frame>> frame = peer.channel.receive();
  if (!frame) return false;
  if (!frame->has_value()) return true;
  Result<wire::EndPoint> sender = (*frame)->end_point();
  if (!sender) {
    GDR_WARN("a sender on the handshake port is refused: %s", sender.error().text.c_str());
    peer.channel.queue_text(wire::FrameKind::kRefuse, sender.error().text);
    (void)peer.channel.flush();
    return false;
  }
  hellos->push_back(Hello{std::move(peer.channel), *sender});
  return false;
}

// Runs after read_all(), so that each peer has been read from.
void PendingPeers::evict() {
  auto is_unknown = [](const Peer& peer) { return !peer.verified; };
  const size_t limit = exhausted_ ? 0 : kMaxUnknown;
  auto count = static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(), is_unknown));
  for (auto peer = peers_.begin(); count > limit;) {
    const auto current = peer++;
    if (!is_unknown(*current)) continue;
    drop(current, "too many are pending");
    --count;
  }
}

void PendingPeers::drop(std::list<Peer>::iterator peer, const char* reason) {
  GDR_TRACE(log::kNet, "dropped a pending peer on the handshake port: %s", reason);
  ++dropped_;
  peers_.erase(peer);
}

}  // namespace gdr::transport
