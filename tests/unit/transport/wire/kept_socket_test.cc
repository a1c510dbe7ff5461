#include "transport/wire/kept_socket.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/transport/socket_cut.h"

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(KeptSocket, EndOfStreamOrReset_MeansThatTheProcessIsGone) {
  EXPECT_EQ(classify_socket_end(0, milliseconds(0)), SocketEnd::kProcess);
  EXPECT_EQ(classify_socket_end(0, std::nullopt), SocketEnd::kProcess);
  EXPECT_EQ(classify_socket_end(ECONNRESET, milliseconds(20)), SocketEnd::kProcess);
  EXPECT_EQ(classify_socket_end(ECONNRESET, seconds(kKeepAliveIdle + 1)), SocketEnd::kProcess);
  EXPECT_EQ(classify_socket_end(ECONNRESET, std::nullopt), SocketEnd::kProcess);
  EXPECT_EQ(classify_socket_end(EPIPE, milliseconds(20)), SocketEnd::kProcess);
}

TEST(KeptSocket, NoAnswerOrNoRoute_MeansThatThePathIsLost) {
  for (int err : {ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ENETDOWN, EHOSTDOWN, ECONNABORTED}) {
    EXPECT_EQ(classify_socket_end(err, milliseconds(0)), SocketEnd::kPath) << err;
  }
}

// A firewall that lost its state answers the first probe after the outage with a reset.
TEST(KeptSocket, ResetThatAnswersAProbe_MeansThatThePathWasLost) {
  EXPECT_EQ(classify_socket_end(ECONNRESET, seconds(kKeepAliveIdle + kKeepAliveInterval)),
            SocketEnd::kPath);
  EXPECT_EQ(classify_socket_end(ECONNRESET, seconds(90)), SocketEnd::kPath);
}

TEST(KeptSocket, Silence_IsThatOfTcp) {
  auto [here, there] = tcp_pair();
  ASSERT_TRUE(silence_of(here.get()).has_value());
  EXPECT_LT(*silence_of(here.get()), seconds(600));
  EXPECT_FALSE(silence_of(local_socket_pair()[0].get()).has_value());
}

}  // namespace
}  // namespace gdr::transport
