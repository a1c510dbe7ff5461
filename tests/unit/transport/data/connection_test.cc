#include "transport/data/connection.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"
#include "tests/unit/transport/socket_cut.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

TEST(Connection, AnEndCannotBeMade_NamesWhatFailedAndLeavesNothing) {
  const std::pair<Call, const char*> cases[] = {{Call::kQueryPort, "querying port"},
                                                {Call::kCreateCq, "creating a CQ"},
                                                {Call::kModifyToInit, "NCCL_IB_PKEY"},
                                                {Call::kRegMr, "the transport's own memory"}};
  Fabric fabric;
  const fake_verbs::LiveObjects before = fabric.verbs.live();
  for (const auto& [call, text] : cases) {
    const auto expect_failure = [&, what = text](const char* hca, const auto& made) {
      ASSERT_FALSE(made);
      EXPECT_TRUE(contains_all(made.error().text, {what, hca}));
      EXPECT_EQ(made.error().sys_errno, EIO);
      EXPECT_EQ(fabric.verbs.live(), before);
    };
    fabric.verbs.fail_call(call, EIO);
    expect_failure("fake_a", fabric.make_sender());
    fabric.verbs.fail_call(call, EIO);
    expect_failure("fake_b", fabric.make_receiver());
  }
}

TEST(Connection, SomethingIsLacking_NamesTheLimitsOfTheHca) {
  for (Call call : {Call::kRegMr, Call::kCreateCq, Call::kCreateQp}) {
    Fabric fabric;
    fabric.verbs.fail_call(call, ENOMEM, 0, 3);
    auto sender = fabric.make_sender();
    ASSERT_FALSE(sender);
    EXPECT_TRUE(contains(sender.error().text, "it states max_qp ")) << sender.error().text;
  }
}

// The peer may be reported first, for a consequence: an event, or what is flushed there.
TEST(Connection, FailedByItsPeer_CompletionOfItsOwnWithTheCauseIsLoggedOnce) {
  for (ibv_wc_status status : {IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR}) {
    BufferedPair pair;
    RecordedLog log;
    pair.irecv(pair.to);
    pair.irecv(pair.to);
    pair.verbs.hold();
    pair.isend(pair.from);
    Request* request = pair.isend(pair.from);
    pair.sender->connection().link().fail_link(Error{Code::kRemote, "the peer reports: x"}, false);
    pair.verbs.fail_each(status, [](const auto&) { return true; });
    pair.verbs.release();
    EXPECT_FALSE(test_once(request).alive);
    const auto logged = log.warnings("work completion REM_ACCESS_ERR (status 10");
    EXPECT_EQ(logged.size(), status == IBV_WC_REM_ACCESS_ERR ? 1u : 0u);
    EXPECT_TRUE(contains(failure_of(*pair.sender).text, "the peer reports: x"));
  }
}

// The receiver makes a QP of its own for the flush.
TEST(Connection, FlushQueuePairFails_IsAnError) {
  for (Call call : {Call::kModifyToRtr, Call::kModifyToRts}) {
    Fabric fabric;
    auto sender = fabric.make_sender().value();
    auto receiver = fabric.make_receiver().value();
    fabric.verbs.fail_call(call, EINVAL, 1);  // after that of the connection
    EXPECT_FALSE(receiver->connect(end_of(*sender)));
    receiver.reset();
    EXPECT_EQ(fabric.verbs.live().qps, 1);
  }
}

TEST(Connection, CompletionQueue_HasRoomForEveryWorkRequest) {
  CommPair pair(options_of_qps(4, /*split=*/false));
  int requests = 0;
  for (const auto& [number, cap] : pair.verbs.queue_pairs()) {
    requests += static_cast<int>(cap.max_send_wr);
    // The sender and the flush never post receives, though a QP must have room for one.
    if (cap.max_recv_wr > 1) requests += static_cast<int>(cap.max_recv_wr);
  }
  int entries = 0;
  for (int some : pair.verbs.cq_entries()) entries += some;
  EXPECT_GE(entries, requests);
}

TEST(ConnectionRoce, OtherRoceVersionOrFamily_IsRefusedWithTheVariablesToSet) {
  Fabric fabric(test_options(), true);
  auto sender = fabric.make_sender().value();
  auto receiver = fabric.make_receiver().value();
  wire::EndPoint version = end_of(*receiver);
  version.rail[0].gid_type = static_cast<uint8_t>(GidType::kRoceV1);
  wire::EndPoint family = end_of(*receiver);
  family.rail[0].gid[0] = 0xfd;
  for (const wire::EndPoint& peer : {version, family}) {
    Result<bool> status = sender->connect(peer);
    ASSERT_FALSE(status);
    EXPECT_TRUE(contains(status.error().text, "NCCL_IB_GID_INDEX")) << status.error().text;
  }
}

// More than one poll takes: completions that are there count, whatever happened to the link.
TEST(Connection, FailedWithCompletionsWaiting_TheyAreAllTaken) {
  BufferedPair pair;
  std::vector<Request*> receives;
  std::vector<Request*> sends;
  for (int i = 0; i < 30; ++i) {
    receives.push_back(pair.irecv(pair.to));
    sends.push_back(pair.isend(pair.from));
    // The sender knows a few receives at a time.
    if (sends.back() == nullptr) sends.pop_back();
  }
  ASSERT_GT(sends.size(), 8u);
  pair.receiver->connection().fail(Code::kRemote, "the peer went away");
  pair.sender->connection().fail(Code::kRemote, "the peer went away");
  EXPECT_TRUE(test_once(sends.back()).done);
  EXPECT_TRUE(test_once(receives[sends.size() - 1]).done);
  EXPECT_FALSE(test_once(receives.back()).alive) << "nothing was sent to it";
}

// The error of one QP stands before the completion of another in the same CQ.
TEST(Connection, OneQueuePairFails_CompletionsOfTheOthersCount) {
  BufferedPair pair(1, options_of_qps(2, /*split=*/false));
  pair.irecv(pair.to);
  Request* second = pair.irecv(pair.to);
  pair.verbs.hold();
  ASSERT_NE(pair.isend(pair.from), nullptr);
  ASSERT_NE(pair.isend(pair.from), nullptr);
  pair.verbs.break_qp(qp_number(*pair.receiver, 0));
  EXPECT_EQ(pair.verbs.deliver_on(qp_number(*pair.sender, 1)), 1);
  EXPECT_TRUE(test_once(second).done);
  EXPECT_TRUE(pair.receiver->connection().failed());
}

// Both ends, with the path of the handshake's socket cut and noticed; RDMA works.
struct CutPair : CommPair {
  explicit CutPair(const TransportOptions& with = test_options())
      : CommPair(with, false, tcp_pair()) {
    cut(sender->connection().link().fd());
    cut(receiver->connection().link().fd());
    EXPECT_TRUE(wait_for([this] {
      return sender->connection().link().needs_attention() &&
             receiver->connection().link().needs_attention();
    }));
  }
  // The fabric delivers the probes, and both ends see the answers.
  void expect_answered() {
    verbs.release();
    exchange(1000);
    EXPECT_FALSE(sender->connection().link().needs_attention());
    EXPECT_FALSE(receiver->connection().link().needs_attention());
  }
  RecordedLog log;
  Buffer from = sender_buffer(1), to = receiver_buffer(1);
};

int option_of(int fd, int name) {
  int value = 0;
  socklen_t bytes = sizeof(value);
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, name, &value, &bytes), 0);
  return value;
}

// Without these a host that is gone would be noticed after two hours.
TEST(Connection, KeptSocket_IsFoundDeadWithinHalfAMinute) {
  CommPair pair(test_options(), false, tcp_pair());
  for (int fd : {pair.sender->connection().link().fd(), pair.receiver->connection().link().fd()}) {
    EXPECT_EQ(option_of(fd, TCP_KEEPIDLE), 10);
    EXPECT_EQ(option_of(fd, TCP_KEEPINTVL), 5);
    EXPECT_EQ(option_of(fd, TCP_KEEPCNT), 4);
    EXPECT_EQ(option_of(fd, TCP_USER_TIMEOUT), 30000);
  }
}

TEST(Connection, HandshakePathLost_TransfersGoOnWithOneWarning) {
  CutPair pair;
  pair.expect_answered();
  EXPECT_TRUE(wait_for([&] { return !pair.log.warnings().empty(); }));
  EXPECT_EQ(pair.log.warnings("the handshake socket is lost").size(), 1u);
  EXPECT_EQ(pair.log.warnings().size(), 1u);
}

// It has nothing outstanding on its HCA that could time out.
TEST(Connection, HandshakePathLostAndSenderDies_ReceiverThatOnlyWaitsFails) {
  CutPair pair;
  pair.verbs.hold();
  Request* receive = pair.irecv(pair.to);
  pair.verbs.release();
  pair.sender.reset();
  Outcome outcome = finish(receive);
  EXPECT_FALSE(outcome.alive);
  EXPECT_EQ(outcome.error, Code::kRemote);
  EXPECT_TRUE(contains_all(failure_of(*pair.receiver).text,
                           {"after the handshake socket was lost", "RETRY_EXC_ERR"}));
}

// NCCL only calls isend, which has no clear-to-send.
TEST(Connection, HandshakePathLostAndReceiverDies_SenderThatOnlyWaitsFails) {
  CutPair pair;
  pair.receiver.reset();
  Request* request = nullptr;
  bool alive = true;
  for (int i = 0; i < 1000 && alive; ++i) {
    alive = pair.sender->isend(pair.from.data(), 1, 0, *pair.from.memory, &request);
    ASSERT_EQ(request, nullptr);
  }
  EXPECT_FALSE(alive);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "after the handshake socket was lost"));
}

// The probe's completion comes after those of messages, and is no message's.
TEST(Connection, ProbeAmongTransfers_CountsForNothing) {
  CutPair pair;
  Request* receive = pair.irecv(pair.to);
  Request* send = pair.isend(pair.from);
  pair.verbs.hold();
  EXPECT_TRUE(finish(send).done);
  EXPECT_TRUE(finish(receive).done);
  EXPECT_EQ(pair.verbs.held(), 2u) << "a probe of each end";
  EXPECT_TRUE(pair.receiver->connection().link().needs_attention());
  pair.expect_answered();
}

// A second one would complete when the data path looks for none.
TEST(Connection, ProbeIsNotAcknowledged_NoneFollows) {
  CutPair pair;
  pair.verbs.hold();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(pair.receiver->progress());
    EXPECT_TRUE(pair.sender->progress());
  }
  EXPECT_EQ(pair.verbs.held(), 2u) << "a probe of each end";
  EXPECT_TRUE(pair.sender->connection().link().needs_attention());
  pair.expect_answered();
}

TEST(Connection, ProbeCannotBePosted_ConnectionGoesOn) {
  CutPair pair;
  pair.verbs.fail_call(Call::kPostSend, ENOMEM);
  Request* request = nullptr;
  EXPECT_TRUE(pair.sender->isend(pair.from.data(), 1, 0, *pair.from.memory, &request));
  EXPECT_FALSE(pair.sender->connection().link().needs_attention());
  pair.exchange(10);
}

// What destroying an end does, in order, with "bye" where the peer has it before the first call.
template <class Comm>
std::vector<std::string> teardown_of(Fabric& fabric, std::unique_ptr<Comm> comm) {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  comm->keep_link(FrameChannel(UniqueFd(fds[0])));
  FrameChannel peer{UniqueFd(fds[1])};
  std::vector<std::string> order;
  fabric.verbs.on_destroy([&](const char* call) {
    if (order.empty()) {
      Result<std::optional<Frame>> frame = peer.receive();
      if (frame && frame->has_value()) {
        order.push_back((*frame)->kind == wire::FrameKind::kBye ? "bye" : "another frame");
      }
    }
    if (order.empty() || order.back() != call) order.push_back(call);
  });
  comm.reset();
  fabric.verbs.on_destroy([](const char*) {});
  return order;
}

// What is registered must outlive the QPs through which the peer may write to it: a clear-to-send
// that is under way would be answered with an access error, which would be the first that a user
// sees.
TEST(Connection, Destroyed_SaysByeThenDestroysQueuePairsBeforeRegistrations) {
  Fabric fabric;
  const std::vector<std::string> expected{"bye", "destroy_qp", "dereg_mr", "destroy_cq"};
  EXPECT_EQ(teardown_of(fabric, fabric.make_sender().value()), expected);
  EXPECT_EQ(teardown_of(fabric, fabric.make_receiver(4).value()), expected);
}

// The probe is posted while nothing else is under way, and not complete before NCCL has all
// requests.
TEST(Connection, ProbeAndEveryRequest_FitTheSendQueue) {
  for (bool adaptive : {false, true}) {
    CutPair pair(adaptive ? adaptive_options() : test_options());
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(pair.receiver->progress());
    for (int i = 0; i < 20; ++i) {
      ASSERT_NE(pair.irecv(std::vector<ReceiveBuffer>(8, pair.to.receive(1))), nullptr);
    }
    EXPECT_TRUE(pair.receiver->progress());
    pair.verbs.hold();
    EXPECT_TRUE(pair.sender->progress());
    EXPECT_EQ(pair.verbs.held(), 1u) << "the probe";
    int sends = 0;
    while (pair.isend(pair.from) != nullptr) ++sends;
    EXPECT_EQ(sends, adaptive ? 59 : 119) << failure_of(*pair.sender).text;
    EXPECT_FALSE(pair.sender->connection().failed());
  }
}

}  // namespace
}  // namespace gdr::transport
