#include "transport/wire/tcp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
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

TEST(Tcp, HandleWithoutPort_IsRejected) { EXPECT_FALSE(read_address(wire::Handle{}).has_value()); }

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
