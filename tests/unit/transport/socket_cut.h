// A TCP connection over the loopback interface whose path a test can cut.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

#include "tests/unit/transport/comm_pair.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

// Both ends of a connection.
inline std::array<UniqueFd, 2> tcp_pair() {
  const ListeningSocket listening = listen_tcp(loopback_address()).value();
  UniqueFd here = start_connect_tcp(listening.address, loopback_address()).value();
  UniqueFd there;
  EXPECT_TRUE(wait_for([&] {
    auto accepted = accept_tcp(listening.fd.get());
    if (!accepted || !accepted->has_value()) return false;
    there = std::move(**accepted);
    return true;
  }));
  EXPECT_TRUE(wait_for([&] { return finish_connect_tcp(here.get()).value(); }));
  return {std::move(here), std::move(there)};
}

// From here on the end drops all that arrives, as a switch that lost its power would, and notices
// that in about two seconds.
inline void cut(int fd) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
  const int one = 1;
  const unsigned milliseconds = 1000;
  EXPECT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one)), 0);
  EXPECT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one)), 0);
  EXPECT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &one, sizeof(one)), 0);
  EXPECT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds)), 0);
}

}  // namespace gdr::transport
