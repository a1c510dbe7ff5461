// C5x: peers that die, and misuse that must be reported.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Posts two receives that get no message. Their registrations end before the comm does, as in NCCL
// (src/transport/net.cc, recvProxyFree).
void post_unmatched(Session& s, const TestConnection& connection) {
  MessageBuffer one(s, connection, 5000);
  MessageBuffer two(s, connection, 0);
  Traffic traffic(s, {});
  Deadline deadline(s, s.options().timeout_seconds);
  for (MessageBuffer* each : {&one, &two}) {
    Op& op = traffic.add(each->op());
    while (!traffic.post(op)) s.require(deadline.wait(), "irecv never returned a request");
  }
}

// After an error elsewhere, NCCL closes comms whose receives are still posted. The rounds close in
// different orders, and a new connection must work afterwards.
void close_with_unmatched(Session& s) {
  s.open();
  for (int round = 0; round < 3; ++round) {
    TestConnection connection = open_connection(s, 0, 1);
    exchange(s, connection, {single(1000)});
    if (s.rank() == 1) post_unmatched(s, connection);
    s.meet("receives are posted");
    bool sender_first = round == 1;
    if (s.rank() == 0 && sender_first) connection.close_send();
    if (s.rank() == 1 && !sender_first) connection.close_recv();
    s.meet("the first end is closed");
  }
  TestConnection connection = open_connection(s, 0, 1);
  exchange(s, connection, {single(1000)});
  s.meet("a new connection works");
}

// Both ends run, and exchange their states, until one has failed, both are done or the time is up.
void send_too_large(Session& s) {
  constexpr size_t kRoom = 1000;
  constexpr size_t kSent = 5000;
  s.open();
  TestConnection connection = open_connection(s, 0, 1);
  bool sends = s.rank() == 0;
  void* comm = connection.comm();
  GuardedBuffer buffer(sends ? kSent : kRoom);
  // The registration extends past the buffer, so that the HCA does not prevent an overrun.
  Traffic traffic(s, {.errors_are_ok = true});
  void* mhandle = nullptr;
  size_t registered = buffer.bytes() + GuardedBuffer::kGuardBytes / 2;
  s.must("regMr",
         [&] { return s.net().reg_mr(comm, buffer.data(), registered, abi::kPtrHost, &mhandle); });
  const Op& op =
      traffic.add(single_op(connection.kind(), comm, buffer.data(), buffer.bytes(), mhandle));
  bool any_error = false;
  bool all_done = false;
  double waited = 0;
  constexpr double kRoundSeconds = 0.3;
  for (; !any_error && !all_done && waited < s.options().timeout_seconds; waited += kRoundSeconds) {
    traffic.run_for(kRoundSeconds);
    std::string mine = op.error != abi::ncclSuccess ? "e" : op.done ? "d" : "w";
    all_done = true;
    for (const std::string& state : s.allgather("outcome of an oversized send", mine)) {
      any_error |= state == "e";
      all_done &= state == "d";
    }
  }
  std::string damage = sends ? std::string() : buffer.damage(kRoom);
  s.require(damage.empty(), "a message of {} bytes for a buffer of {}: {}", kSent, kRoom, damage);
  s.require(any_error, "a message of {} bytes for a buffer of {}: {}", kSent, kRoom,
            all_done ? "both ends reported success" : "neither end reported an error");
  // The contract does not define the use of a comm after an error, so the process ends here.
  s.meet("outcome known");
  _exit(0);
}

// A dead peer must become an error in bounded time: NCCL then reports it by ncclCommGetAsyncError,
// while a request that never completes hangs the whole job without a message.
[[noreturn]] void expect_error_on_dead_peer(Session& s, Traffic& traffic, const Op& op,
                                            const char* what) {
  Clock::time_point start = Clock::now();
  traffic.run_for(s.options().peer_death_seconds);
  s.require(op.error != abi::ncclSuccess, "{} s after the peer's death {} {}",
            s.options().peer_death_seconds, what,
            op.done ? "had succeeded" : "was still waiting, without an error");
  std::chrono::duration<double> took = Clock::now() - start;
  s.control().board().set_state(fmt::format("after an error in {:.1f} s", took.count()));
  _exit(0);
}

// Does the same with a message that is posted now.
[[noreturn]] void expect_error_on_dead_peer(Session& s, Op::Kind kind, void* comm) {
  MessageBuffer message(s, kind, comm, 5000);
  Traffic traffic(s, {.errors_are_ok = true});
  const Op& op = traffic.add(message.op());
  expect_error_on_dead_peer(s, traffic, op, kind == Op::Kind::kSend ? "a send" : "a receive");
}

// Rank 1 dies, and rank 0, which has this end, uses the connection then.
template <Op::Kind kKind>
void peer_dies_before(Session& s) {
  s.open();
  TestConnection connection =
      kKind == Op::Kind::kSend ? open_connection(s, 0, 1) : open_connection(s, 1, 0);
  exchange(s, connection, {single(100)});
  s.meet("connected");
  if (s.rank() == 1) die();
  expect_error_on_dead_peer(s, kKind, connection.comm());
}

void posted_receiver_sees_death(Session& s) {
  s.open();
  TestConnection connection = open_connection(s, 1, 0);
  exchange(s, connection, {single(100)});
  if (s.rank() == 1) {
    s.meet("a receive is posted");
    die();
  }
  MessageBuffer message(s, connection, 5000);
  Traffic traffic(s, {.errors_are_ok = true});
  Op& op = traffic.add(message.op());
  traffic.run_for(0.2);
  s.require(op.posted && !op.over(), "irecv returned no request");
  s.meet("a receive is posted");
  expect_error_on_dead_peer(s, traffic, op, "a posted receive");
}

// The receiver posts buffers and dies while the sender fills them.
void busy_sender_sees_death(Session& s) {
  constexpr size_t kBytes = 1 << 20;
  constexpr int kBefore = 20;  // messages before the death
  s.open();
  TestConnection connection = open_connection(s, 0, 1);
  bool sends = s.rank() == 0;
  MessageBuffer one(s, connection, kBytes);
  s.meet("connected");
  Deadline deadline(s, s.options().peer_death_seconds);
  for (int message = 0;; ++message) {
    Traffic traffic(s, {.errors_are_ok = true});
    Op& op = traffic.add(one.op());
    if (!sends && message == kBefore) {
      traffic.post(op);
      die();
    }
    traffic.run_for(s.options().peer_death_seconds);
    if (!sends || message < kBefore - 1) {
      s.require(op.done, "message {} failed or did not complete before the peer's death", message);
      continue;
    }
    if (op.error != abi::ncclSuccess) _exit(0);
    s.require(op.done, "{:.0f} s after the peer's death a send was still waiting, without an error",
              s.options().peer_death_seconds);
    s.require(deadline.wait(), "sends to a dead peer continue to succeed");
  }
}

using Handle = std::array<char, abi::kHandleMaxBytes>;

// Listens on rank 0 and copies the handle to all ranks.
NetComm listen_on_root(Session& s, Handle& handle) {
  void* comm = nullptr;
  if (s.rank() == 0) {
    s.must("listen", [&] { return s.net().listen(s.context(), s.dev(), handle.data(), &comm); });
  }
  std::string all = s.allgather("handle", {handle.data(), handle.size()})[0];
  std::copy(all.begin(), all.end(), handle.begin());
  return own_listen(s.net(), comm);
}

// Calls connect until it returns a comm, fails, or the time is up.
abi::ncclResult_t connect_for(Session& s, Handle& handle, double seconds, void** comm) {
  abi::ncclResult_t result = abi::ncclSuccess;
  Deadline deadline(s, seconds);
  while (*comm == nullptr && result == abi::ncclSuccess && deadline.wait()) {
    result = s.call("connect",
                    [&] { return s.net().connect(s.context(), s.dev(), handle.data(), comm); });
  }
  return result;
}

void connecting_peer_dies(Session& s) {
  s.open();
  Handle handle{};
  NetComm listener = listen_on_root(s, handle);
  if (s.rank() == 1) {
    void* comm = nullptr;
    (void)connect_for(s, handle, 0.3, &comm);
    s.meet("connect was in progress");
    die();
  }
  s.meet("connect was in progress");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  void* comm = nullptr;
  abi::ncclResult_t result = abi::ncclSuccess;
  Deadline deadline(s, s.options().peer_death_seconds);
  while (comm == nullptr && result == abi::ncclSuccess) {
    result = s.call("accept", [&] { return s.net().accept(listener.get(), &comm); });
    s.require(deadline.wait(),
              "accept still waits, without an error, for a peer that died {} s ago",
              s.options().peer_death_seconds);
  }
  if (result != abi::ncclSuccess) _exit(0);
  // The connection was complete before the death, so its use must report the error.
  expect_error_on_dead_peer(s, Op::Kind::kRecv, comm);
}

void listening_peer_dies(Session& s) {
  s.open();
  Handle handle{};
  NetComm listener = listen_on_root(s, handle);
  void* comm = nullptr;
  if (s.rank() == 1) {
    abi::ncclResult_t early = connect_for(s, handle, 0.2, &comm);
    s.require(early == abi::ncclSuccess, "connect returned {} while its peer was alive",
              describe(early));
  }
  s.meet("connect is in progress");
  if (s.rank() == 0) die();
  abi::ncclResult_t result = connect_for(s, handle, s.options().peer_death_seconds, &comm);
  if (result != abi::ncclSuccess) _exit(0);
  s.require(comm != nullptr, "connect still waits, without an error, for a peer that died {} s ago",
            s.options().peer_death_seconds);
  expect_error_on_dead_peer(s, Op::Kind::kSend, comm);
}
}  // namespace

ConformanceCases failure_cases() {
  return {
      {"C50-close-unmatched", "comms may be closed while posted receives have no matching send", 2,
       &close_with_unmatched},
      {"C51-send-too-large",
       "a message larger than its receive buffer is an error at one end at least, and nothing is "
       "written past the buffer",
       2, &send_too_large},
      {"C52-death-before-receive", "receiving from a peer that was killed becomes an error", 2,
       &peer_dies_before<Op::Kind::kRecv>, 1},
      {"C53-death-with-receive-posted", "a posted receive becomes an error when the peer is killed",
       2, &posted_receiver_sees_death, 1},
      {"C54-death-before-send", "sending to a peer that was killed becomes an error", 2,
       &peer_dies_before<Op::Kind::kSend>, 1},
      {"C55-death-while-sending", "a peer killed during a transfer becomes an error at the sender",
       2, &busy_sender_sees_death, 1},
      {"C56-death-while-connecting",
       "a peer killed after its connect began becomes an error at the acceptor", 2,
       &connecting_peer_dies, 1},
      {"C57-death-while-accepting",
       "a listener killed before it accepted becomes an error of connect", 2, &listening_peer_dies,
       0},
  };
}

}  // namespace gdr::tools
