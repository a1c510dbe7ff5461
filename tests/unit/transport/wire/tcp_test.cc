#include "transport/wire/tcp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

namespace gdr::transport {
namespace {

sockaddr_storage loopback(int family) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    auto* in = reinterpret_cast<sockaddr_in*>(&address);
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
  }
  return address;
}

template <class Step>
bool eventually(Step step) {
  for (int i = 0; i < 1000; ++i) {
    if (step()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(Tcp, ListenConnectAccept_ConnectByTheHandle) {
  auto listening = listen_tcp(loopback(AF_INET));
  ASSERT_TRUE(listening.has_value()) << listening.error().text;
  wire::Handle handle{};
  write_address(listening->address, &handle);
  auto to = read_address(handle);
  ASSERT_TRUE(to.has_value());
  EXPECT_FALSE(accept_tcp(listening->fd.get()).value().has_value());
  auto client = start_connect_tcp(*to, loopback(AF_INET));
  ASSERT_TRUE(client.has_value()) << client.error().text;
  EXPECT_TRUE(eventually([&] { return finish_connect_tcp(client->get()).value(); }));
  EXPECT_TRUE(eventually([&] { return accept_tcp(listening->fd.get()).value().has_value(); }));
}

// The copy of a descriptor that a forked child holds is none.
TEST(Tcp, AcceptWithoutASocket_IsAnError) {
  auto accepted = accept_tcp(-1);
  ASSERT_FALSE(accepted.has_value());
  EXPECT_EQ(accepted.error().sys_errno, EBADF);
}

TEST(Tcp, ConnectToClosedPort_IsRemoteErrorWithErrno) {
  sockaddr_storage gone = [] {
    auto listening = listen_tcp(loopback(AF_INET));
    return listening->address;
  }();
  auto client = start_connect_tcp(gone, loopback(AF_INET));
  if (client.has_value()) {
    Result<bool> result = false;
    ASSERT_TRUE(eventually([&] {
      result = finish_connect_tcp(client->get());
      return !result.has_value();
    }));
    EXPECT_EQ(result.error().code, Code::kRemote);
    EXPECT_EQ(result.error().sys_errno, ECONNREFUSED);
  } else {
    EXPECT_EQ(client.error().sys_errno, ECONNREFUSED);
  }
}

TEST(Tcp, HandleAddress_BothFamilies_IsReadBack) {
  sockaddr_storage v4 = loopback(AF_INET);
  reinterpret_cast<sockaddr_in*>(&v4)->sin_port = htons(4711);
  sockaddr_storage v6 = loopback(AF_INET6);
  reinterpret_cast<sockaddr_in6*>(&v6)->sin6_port = htons(4712);
  reinterpret_cast<sockaddr_in6*>(&v6)->sin6_scope_id = 3;
  for (const sockaddr_storage& address : {v4, v6}) {
    wire::Handle handle{};
    write_address(address, &handle);
    EXPECT_EQ(to_string(read_address(handle).value()), to_string(address));
  }
  EXPECT_EQ(to_string(v4), "127.0.0.1:4711");
  EXPECT_EQ(to_string(v6), "[::1]:4712");
}

// Otherwise each connection would reserve one of the host's ports for itself.
TEST(Tcp, ConnectingFromAnAddress_LeavesThePortToConnect) {
  for (int family : {AF_INET, AF_INET6}) {
    auto listening = listen_tcp(loopback(family));
    if (!listening) continue;  // a host without IPv6
    auto client = start_connect_tcp(listening->address, loopback(family));
    ASSERT_TRUE(client) << client.error().text;
    int value = 0;
    socklen_t length = sizeof(value);
    ASSERT_EQ(getsockopt(client->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &value, &length), 0);
    EXPECT_EQ(value, 1);
    EXPECT_EQ(to_string(peer_address(client->get())), to_string(listening->address));
  }
}

sockaddr_storage scoped_ipv6(const char* text, uint32_t scope) {
  sockaddr_storage address = loopback(AF_INET6);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&address);
  inet_pton(AF_INET6, text, &in6->sin6_addr);
  in6->sin6_scope_id = scope;
  return address;
}

uint32_t scope_of(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6*>(&address)->sin6_scope_id;
}

// The number that a handle carries is that of an interface of the listener's host.
TEST(Tcp, LinkLocalAddressOfAPeer_GetsTheScopeOfTheOwnInterface) {
  const uint32_t lo = if_nametoindex("lo");
  ASSERT_NE(lo, 0u);
  sockaddr_storage address = scoped_ipv6("fe80::1", 77);
  set_local_scope(&address, "lo", scoped_ipv6("fd00::2", 0));
  EXPECT_EQ(scope_of(address), lo);
  address = scoped_ipv6("fe80::1", 77);
  set_local_scope(&address, "", scoped_ipv6("fe80::2", 5));
  EXPECT_EQ(scope_of(address), 5u);
  address = scoped_ipv6("fe80::1", 77);
  set_local_scope(&address, "no such interface", scoped_ipv6("fe80::2", 5));
  EXPECT_EQ(scope_of(address), 5u);
}

TEST(Tcp, OtherAddress_KeepsItsScope) {
  sockaddr_storage global = scoped_ipv6("fd00::1", 77);
  set_local_scope(&global, "lo", scoped_ipv6("fe80::2", 5));
  EXPECT_EQ(scope_of(global), 77u);
  sockaddr_storage v4 = loopback(AF_INET);
  const sockaddr_storage before = v4;
  set_local_scope(&v4, "lo", v4);
  EXPECT_EQ(std::memcmp(&v4, &before, sizeof(v4)), 0);
}

TEST(Tcp, HandleWithoutPort_IsRejected) { EXPECT_FALSE(read_address(wire::Handle{}).has_value()); }

TEST(Tcp, NoSocketOrAddress_ErrorSaysWhatHelps) {
  sockaddr_storage elsewhere = loopback(AF_INET);
  reinterpret_cast<sockaddr_in*>(&elsewhere)->sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1
  const auto no_address = listen_tcp(elsewhere);
  ASSERT_FALSE(no_address.has_value());
  EXPECT_NE(no_address.error().text.find("NCCL_SOCKET_IFNAME"), std::string::npos);

  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto no_files = listen_tcp(loopback(AF_INET));
  const auto no_socket = start_connect_tcp(loopback(AF_INET), loopback(AF_INET));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(no_files.has_value() || no_socket.has_value());
  for (const std::string& text : {no_files.error().text, no_socket.error().text}) {
    EXPECT_NE(text.find("Fix: raise the limit of open files (`ulimit -n`)"), std::string::npos)
        << text;
  }
}

// A job's process that has forked workers, such as those of a data loader, is killed. The workers
// live on, and must not hold its connections open.
TEST(Tcp, ProcessDiesAndItsForkedChildLives_PeerSeesTheEnd) {
  auto listening = listen_tcp(loopback(AF_INET));
  ASSERT_TRUE(listening.has_value()) << listening.error().text;
  int child_lives[2];
  ASSERT_EQ(pipe(child_lives), 0);
  const pid_t process = fork();
  if (process == 0) {
    auto connection = start_connect_tcp(listening->address, loopback(AF_INET));
    while (!finish_connect_tcp(connection->get()).value()) continue;
    if (fork() == 0) {
      // It ends when the test closes the pipe.
      close(child_lives[1]);
      char byte;
      _exit(static_cast<int>(read(child_lives[0], &byte, 1)));
    }
    _exit(0);
  }
  UniqueFd peer;
  EXPECT_TRUE(eventually([&] {
    auto accepted = accept_tcp(listening->fd.get());
    if (accepted->has_value()) peer = std::move(**accepted);
    return peer.valid();
  }));
  EXPECT_EQ(waitpid(process, nullptr, 0), process);
  char byte;
  EXPECT_TRUE(eventually([&] { return recv(peer.get(), &byte, 1, MSG_DONTWAIT) == 0; }));
  close(child_lives[0]);
  close(child_lives[1]);
}

}  // namespace
}  // namespace gdr::transport
