#include "tools/doctor/burn_in_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

namespace gdr::tools::doctor {
namespace {

using BurnInJson = nlohmann::json;
using std::chrono::milliseconds;

constexpr char kHelloKey[] = "nccl_gdr_burn_in";
constexpr int kHelloVersion = 1;
constexpr size_t kMostMessageBytes = size_t{1} << 16;
// For a peer that has connected and sends no hello, while the other machine may wait behind it.
constexpr auto kHelloPatience = std::chrono::seconds(2);
constexpr auto kPauseBetweenAttempts = milliseconds(100);

int milliseconds_until(BurnInClock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - BurnInClock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000));
}

bool is_ready(int fd, short events, BurnInClock::time_point deadline) {
  for (;;) {
    pollfd wait{fd, events, 0};
    const int ready = poll(&wait, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (BurnInClock::now() >= deadline) return false;
  }
}

}  // namespace

// Lines of JSON on a socket.
struct BurnInLines {
  UniqueFd fd;
  std::string received = {};

  Status send(const BurnInJson& message) {
    const std::string line =
        message.dump(-1, ' ', true, BurnInJson::error_handler_t::replace) + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t more = ::send(fd.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) return fail_errno(Code::kInvalidUsage, "the connection is lost", errno);
      sent += static_cast<size_t>(more);
    }
    return {};
  }

  Result<BurnInJson> receive(BurnInClock::time_point deadline) {
    for (;;) {
      if (const size_t end = received.find('\n'); end != std::string::npos) {
        BurnInJson message = BurnInJson::parse(received.substr(0, end), nullptr, false);
        received.erase(0, end + 1);
        if (message.is_object()) return message;
        return fail(Code::kInvalidUsage, "it does not send what nccl-gdr doctor --burn-in does");
      }
      if (received.size() > kMostMessageBytes) {
        return fail(Code::kInvalidUsage, "it does not send what nccl-gdr doctor --burn-in does");
      }
      if (!is_ready(fd.get(), POLLIN, deadline)) {
        return fail(Code::kInvalidUsage, "it sends nothing");
      }
      char part[4096];
      const ssize_t got = recv(fd.get(), part, sizeof part, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_errno(Code::kInvalidUsage, "the connection is lost", errno);
      if (got == 0) return fail(Code::kInvalidUsage, "it has ended");
      received.append(part, static_cast<size_t>(got));
    }
  }
};

namespace {

bool is_hello(const BurnInJson& message) {
  const auto version = message.find(kHelloKey);
  return version != message.end() && version->is_number_integer();
}

sockaddr_in socket_address(const BurnInPeer& peer) {
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(peer.port));
  inet_pton(AF_INET, peer.address.c_str(), &name.sin_addr);
  return name;
}

// Why the other machine may not have come. Both listen where both have the address, as that of a
// bridge of containers, and both connect where none has it, as behind a NAT.
std::string why_they_do_not_meet(const BurnInPeer& peer) {
  if (peer.address.starts_with("127.")) {
    return peer.address +
           " is a loopback address, which no other machine reaches: give an address "
           "that ip -4 addr shows, and the same one on the other machine";
  }
  const std::string ports =
      fmt::format("TCP ports {} and {} get through the firewall", peer.port, peer.port + 1);
  if (peer.rank == 0) {
    return fmt::format(
        "start the same command on the other machine within a minute, and see that {}, and that "
        "only this machine has {} (ip -4 addr)",
        ports, peer.address);
  }
  return fmt::format(
      "start the same command on the machine that has {} (ip -4 addr), and on this one, within a "
      "minute, and see that {}",
      peer.address, ports);
}

UniqueFd listen_at(const sockaddr_in& name) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  if (fd.valid() && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      bind(fd.get(), address, sizeof name) == 0 && listen(fd.get(), SOMAXCONN) == 0) {
    return fd;
  }
  return {};
}

// Waits for a connection that begins with a hello.
Result<std::pair<BurnInLines, BurnInJson>> accept_doctor(const BurnInPeer& peer,
                                                         BurnInClock::time_point deadline) {
  const UniqueFd listener = listen_at(socket_address(peer));
  if (!listener.valid()) {
    return fail(Code::kInvalidUsage,
                fmt::format("cannot listen at {}:{}: {}. Fix: another port, ADDRESS:PORT",
                            peer.address, peer.port, std::strerror(errno)));
  }
  while (is_ready(listener.get(), POLLIN, deadline)) {
    BurnInLines lines{UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
    if (!lines.fd.valid()) {  // where descriptors are used up, the connection stays and is ready
      std::this_thread::sleep_for(kPauseBetweenAttempts);
      continue;
    }
    auto hello = lines.receive(std::min(deadline, BurnInClock::now() + kHelloPatience));
    if (hello && is_hello(*hello)) return std::pair(std::move(lines), std::move(*hello));
  }
  return fail(Code::kInvalidUsage,
              fmt::format("the other machine does not come to {}:{}. Fix: {}", peer.address,
                          peer.port, why_they_do_not_meet(peer)));
}

// Connects once; the socket is blocking afterwards. Does not wait for long, unlike connect(), where
// a firewall drops the packets.
UniqueFd try_connect(const sockaddr_in& name, BurnInClock::time_point deadline) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  if (connect(fd.get(), address, sizeof name) != 0) {
    if (errno != EINPROGRESS) return {};
    if (!is_ready(fd.get(), POLLOUT, deadline)) {
      errno = ETIMEDOUT;
      return {};
    }
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) {
      errno = error;
      return {};
    }
  }
  const int flags = fcntl(fd.get(), F_GETFL);
  fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return fd;
}

Result<std::pair<BurnInLines, BurnInJson>> connect_doctor(const BurnInPeer& peer,
                                                          const BurnInJson& hello,
                                                          BurnInClock::time_point deadline) {
  const sockaddr_in name = socket_address(peer);
  std::string reason;
  do {
    BurnInLines lines{try_connect(name, deadline)};
    if (!lines.fd.valid()) {
      reason = std::strerror(errno);
    } else if (lines.send(hello)) {
      auto answer = lines.receive(deadline);
      if (answer && is_hello(*answer)) return std::pair(std::move(lines), std::move(*answer));
      reason = answer ? "it is no nccl-gdr doctor --burn-in" : answer.error().text;
    }
    std::this_thread::sleep_for(kPauseBetweenAttempts);
  } while (BurnInClock::now() < deadline);
  return fail(Code::kInvalidUsage,
              fmt::format("the other machine does not answer at {}:{}: {}. Fix: {}", peer.address,
                          peer.port, reason, why_they_do_not_meet(peer)));
}

}  // namespace

struct BurnInLink::Connection {
  BurnInLines lines;
  BurnInJson hello;
};

BurnInLink::BurnInLink(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
BurnInLink::BurnInLink(BurnInLink&&) noexcept = default;
BurnInLink& BurnInLink::operator=(BurnInLink&&) noexcept = default;
BurnInLink::~BurnInLink() = default;

Result<BurnInLink> BurnInLink::meet(const BurnInPeer& peer, const BurnInJson& hello,
                                    BurnInClock::time_point deadline) {
  BurnInJson own = hello;
  own[kHelloKey] = kHelloVersion;
  auto met = peer.rank == 0 ? accept_doctor(peer, deadline) : connect_doctor(peer, own, deadline);
  if (!met) return forward_error(met);
  if (peer.rank == 0) {
    if (Status sent = met->first.send(own); !sent) return forward_error(sent);
  }
  if (met->second[kHelloKey] != kHelloVersion) {
    return fail(Code::kInvalidUsage,
                "the other machine has another release of nccl-gdr. Fix: install the same on both");
  }
  return BurnInLink(
      std::make_unique<Connection>(Connection{std::move(met->first), std::move(met->second)}));
}

const BurnInJson& BurnInLink::hello() const { return connection_->hello; }

Result<BurnInJson> BurnInLink::exchange(const BurnInJson& message,
                                        BurnInClock::time_point deadline) {
  if (Status sent = connection_->lines.send(message); !sent) {
    return fail(Code::kInvalidUsage, "the other machine has left: " + sent.error().text);
  }
  auto received = connection_->lines.receive(deadline);
  if (received) return received;
  return fail(Code::kInvalidUsage,
              "the other machine does not answer any more: " + received.error().text);
}

bool BurnInLink::has_news() const {
  if (!connection_->lines.received.empty()) return true;
  pollfd wait{connection_->lines.fd.get(), POLLIN, 0};
  return poll(&wait, 1, 0) > 0;
}

}  // namespace gdr::tools::doctor
