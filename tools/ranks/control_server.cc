#include "tools/ranks/control_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/ranks/control_frame.h"

namespace gdr::tools {
namespace {
constexpr size_t kLengthBytes = sizeof(uint32_t);

bool frame_length(const std::string& in, uint32_t* length) {
  if (in.size() < kLengthBytes) return false;
  std::memcpy(length, in.data(), kLengthBytes);
  return true;
}

bool has_frame(const std::string& in) {
  uint32_t length = 0;
  return frame_length(in, &length) && in.size() >= kLengthBytes + length;
}

std::string take_frame(std::string* in) {
  uint32_t length = 0;
  frame_length(*in, &length);
  std::string payload = in->substr(kLengthBytes, length);
  in->erase(0, kLengthBytes + length);
  return payload;
}
}  // namespace

// Whether every rank has connected, be it gone by now.
bool ControlServer::all_joined() const {
  auto joined = std::ranges::count_if(peers_, [](const Peer& peer) { return peer.rank >= 0; });
  return joined + std::ranges::count(gone_, true) >= nranks_;
}

void ControlServer::serve(int timeout_ms) {
  std::vector<pollfd> waits{{all_joined() ? -1 : listener_, POLLIN, 0}};
  for (const Peer& peer : peers_) waits.push_back({peer.fd.get(), POLLIN, 0});
  if (poll(waits.data(), waits.size(), timeout_ms) <= 0) return;
  for (size_t i = 1; i < waits.size(); ++i) {
    Peer& peer = peers_[i - 1];
    if (waits[i].revents == 0 || read_peer(peer)) continue;
    if (peer.rank >= 0) gone_[peer.rank] = true;
    peer.fd.reset();
  }
  std::erase_if(peers_, [](const Peer& peer) { return !peer.fd.valid(); });
  if (waits[0].revents != 0) accept_peers();
  finish_round();
}

void ControlServer::accept_peers() {
  UniqueFd fd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return;
  int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  peers_.push_back(Peer{std::move(fd), -1, {}});
}

// Returns false when the connection is closed or invalid.
bool ControlServer::read_peer(Peer& peer) {
  char buffer[65536];
  ssize_t got = recv(peer.fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  peer.in.append(buffer, static_cast<size_t>(got));
  uint32_t length = 0;
  uint32_t most = peer.rank < 0 ? sizeof(Hello) : kMaxFrameBytes;
  if (frame_length(peer.in, &length) && length > most) return false;
  return peer.rank >= 0 || !has_frame(peer.in) || take_hello(peer);
}

bool ControlServer::take_hello(Peer& peer) {
  std::string payload = take_frame(&peer.in);
  Hello hello;
  if (payload.size() != sizeof(hello)) return false;
  std::memcpy(&hello, payload.data(), sizeof(hello));
  auto ranks = static_cast<uint32_t>(nranks_);
  if (hello.magic != kControlMagic || hello.run != run_) return false;
  if (hello.nranks != ranks || hello.rank >= ranks) return false;
  int rank = static_cast<int>(hello.rank);
  if (peer_of(rank) != nullptr || gone_[rank]) return false;
  peer.rank = rank;
  return true;
}

// Answers all ranks once every rank has sent its frame. If a rank has ended, the round cannot
// complete, and the other ranks get the reason instead, at once and as the answer of each round.
void ControlServer::finish_round() {
  std::vector<Peer*> ready;
  int ended_rank = -1;
  for (int rank = 0; rank < nranks_; ++rank) {
    Peer* peer = peer_of(rank);
    if (peer != nullptr && has_frame(peer->in)) ready.push_back(peer);
    if (peer == nullptr && gone_[rank]) ended_rank = rank;
  }
  if (ended_rank >= 0) {
    abandon(fmt::format("rank {} has ended", ended_rank));
    return;
  }
  if (ready.size() != static_cast<size_t>(nranks_)) return;
  std::vector<std::string> parts;
  for (Peer* peer : ready) parts.push_back(take_frame(&peer->in));
  std::string answer = make_frame(make_gathered(parts));
  for (Peer* peer : ready) {
    if (!write_all(peer->fd.get(), answer)) gone_[peer->rank] = true;
  }
}

void ControlServer::abandon(const std::string& why) {
  std::string answer = make_frame(static_cast<char>(Answer::kAbandoned) + why);
  for (Peer& peer : peers_) {
    if (peer.rank < 0 || (peer.abandoned && !has_frame(peer.in))) continue;
    if (has_frame(peer.in)) take_frame(&peer.in);
    peer.abandoned = true;
    // If this write fails, that rank has ended, too, and its parent process reports it.
    (void)write_all(peer.fd.get(), answer);
  }
}

ControlServer::Peer* ControlServer::peer_of(int rank) {
  auto found = std::find_if(peers_.begin(), peers_.end(),
                            [rank](const Peer& peer) { return peer.rank == rank; });
  return found == peers_.end() ? nullptr : &*found;
}

}  // namespace gdr::tools
