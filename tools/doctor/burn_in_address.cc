// The peer of --burn-in, as the command line names it.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "tools/doctor/burn_in.h"

namespace gdr::tools::doctor {
namespace {

constexpr int kFirstBurnInPort = 29500;
constexpr int kMostBurnInPort = 65535 - 1;  // the measurements take the next one

// Whether an address is one of this machine's. The attempt to bind a socket to it would not show
// that: with net.ipv4.ip_nonlocal_bind=1 it succeeds for every address.
bool is_own_address(const in_addr& address) {
  if (ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET) return true;  // 127.0.0.0/8
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(head, freeifaddrs);
  for (const ifaddrs* one = head; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    const auto* own = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    if (own->sin_addr.s_addr == address.s_addr) return true;
  }
  return false;
}

}  // namespace

Result<BurnInPeer> parse_burn_in_peer(const std::string& text) {
  BurnInPeer peer;
  peer.is_loopback = text == "loopback";
  if (text == "local" || peer.is_loopback) return peer;
  peer.is_local = false;
  peer.port = kFirstBurnInPort;
  std::string host = text;
  if (const size_t colon = text.rfind(':'); colon != std::string::npos) {
    host = text.substr(0, colon);
    char* end = nullptr;
    const long port = std::strtol(text.c_str() + colon + 1, &end, 10);
    if (end == text.c_str() + colon + 1 || *end != '\0' || port < 1 || port > kMostBurnInPort) {
      return fail(Code::kInvalidArgument,
                  fmt::format("\"{}\": the port is no number from 1 to {}", text, kMostBurnInPort));
    }
    peer.port = static_cast<int>(port);
  }
  if (host.empty()) {
    return fail(Code::kInvalidArgument,
                fmt::format("\"{}\" names no peer. Fix: local, loopback or ADDRESS[:PORT]", text));
  }
  if (host.find(':') != std::string::npos) {
    return fail(Code::kInvalidArgument,
                fmt::format("\"{}\" is neither local, loopback nor an IPv4 address or name", text));
  }
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("\"{}\" is neither local, loopback nor an IPv4 address or name: {}",
                            text, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  const in_addr address = reinterpret_cast<const sockaddr_in*>(list->ai_addr)->sin_addr;
  if (address.s_addr == htonl(INADDR_ANY)) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("\"{}\" is the address of no machine. Fix: an address of one of the two, "
                    "as ip -4 addr shows them",
                    text));
  }
  char name[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address, name, sizeof name);
  peer.address = name;
  peer.rank = is_own_address(address) ? 0 : 1;
  return peer;
}

}  // namespace gdr::tools::doctor
