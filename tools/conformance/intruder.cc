#include "tools/conformance/intruder.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "tools/common/pattern.h"

namespace gdr::tools {
namespace {
constexpr char kListenState[] = "0A";  // TCP_LISTEN in /proc/net/tcp

std::set<std::string> own_socket_inodes() {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    constexpr char kPrefix[] = "socket:[";
    if (error || target.rfind(kPrefix, 0) != 0) continue;
    inodes.insert(target.substr(sizeof(kPrefix) - 1, target.size() - sizeof(kPrefix)));
  }
  return inodes;
}

// Adds the ports of the listening sockets with these inodes. The lines of the file are "sl
// local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...".
void collect(const char* file, const std::set<std::string>& inodes, std::set<uint16_t>* ports) {
  std::ifstream table(file);
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
        timeout >> inode;
    size_t colon = local.rfind(':');
    if (state != kListenState || colon == std::string::npos || inodes.count(inode) == 0) continue;
    ports->insert(static_cast<uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16)));
  }
}

// Returns all addresses of this machine, because the listener may be bound to any of them.
std::vector<in_addr> own_addresses() {
  std::vector<in_addr> out;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return out;
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, &freeifaddrs);
  for (ifaddrs* each = raw; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    out.push_back(reinterpret_cast<sockaddr_in*>(each->ifa_addr)->sin_addr);
  }
  return out;
}

UniqueFd connect_to(uint16_t port) {
  for (in_addr address : own_addresses()) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr = address;
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) return fd;
  }
  return {};
}
}  // namespace

std::vector<uint16_t> listening_ports() {
  std::set<std::string> inodes = own_socket_inodes();
  std::set<uint16_t> ports;
  collect("/proc/self/net/tcp", inodes, &ports);
  collect("/proc/self/net/tcp6", inodes, &ports);
  return {ports.begin(), ports.end()};
}

std::vector<UniqueFd> intrude(const std::vector<uint16_t>& ports, uint64_t seed) {
  constexpr size_t kNoiseBytes[] = {0, 1, 7, 16, 128, 4096, 60000};
  std::vector<UniqueFd> open;
  for (uint16_t port : ports) {
    for (size_t bytes : kNoiseBytes) {
      std::string noise(bytes, '\0');
      Pattern(seed, port, bytes).fill(noise.data(), bytes);
      for (bool stay : {false, true}) {
        UniqueFd fd = connect_to(port);
        if (!fd.valid()) continue;
        (void)send(fd.get(), noise.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (stay) open.push_back(std::move(fd));
      }
    }
  }
  return open;
}

}  // namespace gdr::tools
