// C5x: peers that die, strangers, and misuse that must not pass in silence.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"
#include "tools/conformance/guarded_buffer.h"
#include "tools/conformance/intruder.h"

namespace gdr::tools {
namespace {
[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// One message's op on a buffer that lives as long as this.
struct Single {
  GuardedBuffer buffer;
  CheckedRegistration registration;
  Single(Session& s, void* comm, size_t bytes)
      : buffer(bytes), registration(s, comm, buffer.data(), bytes) {}
  Op op(Op::Kind kind, void* comm) {
    Op made;
    made.kind = kind;
    made.comm = comm;
    made.data = {buffer.data()};
    made.sizes = {static_cast<int>(buffer.bytes())};
    made.tags = {0};
    made.mhandles = {registration.get()};
    return made;
  }
};

void close_with_unmatched(Session& s) {
  s.open();
  for (int round = 0; round < 3; ++round) {
    Wire wire = open_wire(s, 0, 1);
    exchange(s, wire, {single(1000)});
    if (s.rank() == 1) {
      Single one(s, wire.recv_comm(), 5000);
      Single two(s, wire.recv_comm(), 0);
      Traffic traffic(s, {});
      Deadline deadline(s, s.options().timeout_seconds);
      for (Single* each : {&one, &two}) {
        Op& op = traffic.add(each->op(Op::Kind::kRecv, wire.recv_comm()));
        while (!traffic.post(op)) s.require(deadline.wait(), "irecv was never taken");
      }
      s.meet("receives are posted");
      if (round == 1) s.meet("sender closed");
      wire.close_recv();
      if (round != 1) s.meet("receiver closed");
      // The registrations are gone with their comm.
      continue;
    }
    s.meet("receives are posted");
    if (round == 1) {
      wire.close_send();
      s.meet("sender closed");
    } else {
      s.meet("receiver closed");
    }
  }
  Wire wire = open_wire(s, 0, 1);
  exchange(s, wire, {single(1000)});
  s.meet("a new connection works");
}

// Both ends run until each has completed or failed, or time is up; then they tell each other.
void send_too_large(Session& s) {
  constexpr size_t kRoom = 1000;
  constexpr size_t kSent = 5000;
  s.open();
  Wire wire = open_wire(s, 0, 1);
  bool sends = s.rank() == 0;
  void* comm = sends ? wire.send_comm() : wire.recv_comm();
  GuardedBuffer buffer(sends ? kSent : kRoom);
  // The registration reaches past the buffer: the HCA would let the plugin overrun it.
  std::vector<char> spare;
  Traffic traffic(s, TrafficStyle{false, false, true});
  void* mhandle = nullptr;
  size_t registered = buffer.bytes() + GuardedBuffer::kGuardBytes / 2;
  s.must("regMr",
         [&] { return s.net().regMr(comm, buffer.data(), registered, abi::kPtrHost, &mhandle); });
  Op wanted;
  wanted.kind = sends ? Op::Kind::kSend : Op::Kind::kRecv;
  wanted.comm = comm;
  wanted.data = {buffer.data()};
  wanted.sizes = {static_cast<int>(buffer.bytes())};
  wanted.tags = {0};
  wanted.mhandles = {mhandle};
  Op& op = traffic.add(wanted);
  bool any_error = false;
  bool all_done = false;
  double waited = 0;
  constexpr double kRoundSeconds = 0.3;
  for (; !any_error && !all_done && waited < s.options().timeout_seconds; waited += kRoundSeconds) {
    traffic.run_for(kRoundSeconds);
    std::string mine = op.error != abi::ncclSuccess ? "e" : op.done ? "d" : "w";
    all_done = true;
    for (const std::string& state : s.allgather("outcome of a send too large", mine)) {
      any_error |= state == "e";
      all_done &= state == "d";
    }
  }
  std::string damage = sends ? std::string() : buffer.damage(kRoom);
  s.require(damage.empty(), "a message of {} bytes for a buffer of {}: {}", kSent, kRoom, damage);
  s.require(any_error, "a message of {} bytes for a buffer of {}: {}", kSent, kRoom,
            all_done ? "both ends reported success" : "neither end reported an error");
  // What a comm is good for after an error is not said; the process ends.
  s.meet("outcome seen");
  _exit(0);
}

void expect_error_on_dead_peer(Session& s, Traffic& traffic, const Op& op, const char* what) {
  Clock::time_point start = Clock::now();
  traffic.run_for(s.options().peer_death_seconds);
  s.require(op.error != abi::ncclSuccess, "{} s after the peer's death {} {}",
            s.options().peer_death_seconds, what,
            op.done ? "had succeeded" : "was still waiting, without an error");
  std::chrono::duration<double> took = Clock::now() - start;
  s.control().board().set_state(fmt::format("past an error after {:.1f} s", took.count()));
}

void receiver_sees_death(Session& s) {
  s.open();
  Wire wire = open_wire(s, 1, 0);
  exchange(s, wire, {single(100)});
  s.meet("connected");
  if (s.rank() == 1) die();
  Single single_op(s, wire.recv_comm(), 5000);
  Traffic traffic(s, TrafficStyle{false, false, true});
  Op& op = traffic.add(single_op.op(Op::Kind::kRecv, wire.recv_comm()));
  expect_error_on_dead_peer(s, traffic, op, "a receive");
  _exit(0);
}

void posted_receiver_sees_death(Session& s) {
  s.open();
  Wire wire = open_wire(s, 1, 0);
  exchange(s, wire, {single(100)});
  if (s.rank() == 1) {
    s.meet("a receive is posted");
    die();
  }
  Single single_op(s, wire.recv_comm(), 5000);
  Traffic traffic(s, TrafficStyle{false, false, true});
  Op& op = traffic.add(single_op.op(Op::Kind::kRecv, wire.recv_comm()));
  traffic.run_for(0.2);
  s.require(op.posted && !op.over(), "the receive was not taken");
  s.meet("a receive is posted");
  expect_error_on_dead_peer(s, traffic, op, "a posted receive");
  _exit(0);
}

void sender_sees_death(Session& s) {
  s.open();
  Wire wire = open_wire(s, 0, 1);
  exchange(s, wire, {single(100)});
  s.meet("connected");
  if (s.rank() == 1) die();
  Single single_op(s, wire.send_comm(), 5000);
  Traffic traffic(s, TrafficStyle{false, false, true});
  Op& op = traffic.add(single_op.op(Op::Kind::kSend, wire.send_comm()));
  expect_error_on_dead_peer(s, traffic, op, "a send");
  _exit(0);
}

// The receiver posts buffers and dies while the sender fills them.
void busy_sender_sees_death(Session& s) {
  constexpr size_t kBytes = 1 << 20;
  constexpr int kBefore = 20;  // messages before the death
  s.open();
  Wire wire = open_wire(s, 0, 1);
  bool sends = s.rank() == 0;
  void* comm = sends ? wire.send_comm() : wire.recv_comm();
  Single one(s, comm, kBytes);
  s.meet("connected");
  Deadline deadline(s, s.options().peer_death_seconds);
  for (int message = 0;; ++message) {
    Traffic traffic(s, TrafficStyle{false, false, true});
    Op& op = traffic.add(one.op(sends ? Op::Kind::kSend : Op::Kind::kRecv, comm));
    if (!sends && message == kBefore) {
      traffic.post(op);
      die();
    }
    traffic.run_for(s.options().peer_death_seconds);
    if (!sends || message < kBefore - 1) {
      s.require(op.done, "message {} failed or stayed out before the death", message);
      continue;
    }
    if (op.error != abi::ncclSuccess) _exit(0);
    s.require(op.done, "{:.0f} s after the peer's death a send was still waiting, without an error",
              s.options().peer_death_seconds);
    s.require(deadline.wait(), "sends to a dead peer go on succeeding");
  }
}

using Handle = std::array<char, abi::kHandleMaxBytes>;

// Rank 0 listens; rank 1 gets the handle.
NetComm listen_and_tell(Session& s, Handle& handle) {
  void* comm = nullptr;
  if (s.rank() == 0) {
    s.must("listen", [&] { return s.net().listen(s.dev(), handle.data(), &comm); });
  }
  std::string all = s.allgather("handle", {handle.data(), handle.size()})[0];
  std::copy(all.begin(), all.end(), handle.begin());
  return NetComm(comm, CloseComm{s.net().closeListen});
}

// Calls connect until it gives a comm, fails, or the time is over.
abi::ncclResult_t connect_for(Session& s, Handle& handle, double seconds, void** comm) {
  abi::ncclResult_t result = abi::ncclSuccess;
  Deadline deadline(s, seconds);
  while (*comm == nullptr && result == abi::ncclSuccess && deadline.wait()) {
    abi::ncclNetDeviceHandle_v8_t* device = nullptr;
    result =
        s.call("connect", [&] { return s.net().connect(s.dev(), handle.data(), comm, &device); });
  }
  return result;
}

void connecting_peer_dies(Session& s) {
  s.open();
  Handle handle{};
  NetComm listener = listen_and_tell(s, handle);
  if (s.rank() == 1) {
    void* comm = nullptr;
    (void)connect_for(s, handle, 0.3, &comm);
    s.meet("connect was under way");
    die();
  }
  s.meet("connect was under way");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  void* comm = nullptr;
  abi::ncclResult_t result = abi::ncclSuccess;
  Deadline deadline(s, s.options().peer_death_seconds);
  while (comm == nullptr && result == abi::ncclSuccess) {
    abi::ncclNetDeviceHandle_v8_t* device = nullptr;
    result = s.call("accept", [&] { return s.net().accept(listener.get(), &comm, &device); });
    s.require(deadline.wait(),
              "accept still waits, without an error, for a peer that died {} s ago",
              s.options().peer_death_seconds);
  }
  if (result != abi::ncclSuccess) _exit(0);
  // A connection that stood before the death: using it must tell.
  Single single_op(s, comm, 5000);
  Traffic traffic(s, TrafficStyle{false, false, true});
  Op& op = traffic.add(single_op.op(Op::Kind::kRecv, comm));
  expect_error_on_dead_peer(s, traffic, op, "a receive");
  _exit(0);
}

void listening_peer_dies(Session& s) {
  s.open();
  Handle handle{};
  NetComm listener = listen_and_tell(s, handle);
  void* comm = nullptr;
  if (s.rank() == 1) {
    abi::ncclResult_t early = connect_for(s, handle, 0.2, &comm);
    s.require(early == abi::ncclSuccess, "connect returned {} while its peer was alive",
              describe(early));
  }
  s.meet("connect is under way");
  if (s.rank() == 0) die();
  abi::ncclResult_t result = connect_for(s, handle, s.options().peer_death_seconds, &comm);
  if (result != abi::ncclSuccess) _exit(0);
  s.require(comm != nullptr, "connect still waits, without an error, for a peer that died {} s ago",
            s.options().peer_death_seconds);
  Single single_op(s, comm, 5000);
  Traffic traffic(s, TrafficStyle{false, false, true});
  Op& op = traffic.add(single_op.op(Op::Kind::kSend, comm));
  expect_error_on_dead_peer(s, traffic, op, "a send");
  _exit(0);
}

void strangers(Session& s) {
  s.open();
  Handle handle{};
  std::vector<uint16_t> before = listening_ports();
  NetComm listener = listen_and_tell(s, handle);
  std::vector<uint16_t> ports;
  for (uint16_t port : listening_ports()) {
    if (std::find(before.begin(), before.end(), port) == before.end()) ports.push_back(port);
  }
  bool found = s.allgather("ports", ports.empty() ? "" : "found")[0] == "found";
  if (!found) s.skip("no TCP port of the listener was found");
  std::vector<UniqueFd> callers;  // some stay connected and silent until the end
  if (s.rank() == 0) callers = call_as_stranger(ports, s.options().seed);
  s.meet("strangers called");
  NetComm send(nullptr, CloseComm{s.net().closeSend});
  NetComm recv(nullptr, CloseComm{s.net().closeRecv});
  void* comm = nullptr;
  if (s.rank() == 1) {
    abi::ncclResult_t result = connect_for(s, handle, s.options().timeout_seconds, &comm);
    s.require(result == abi::ncclSuccess && comm != nullptr, "connect failed ({})",
              describe(result));
    send.reset(comm);
  } else {
    Deadline deadline(s, s.options().timeout_seconds);
    while (comm == nullptr) {
      abi::ncclNetDeviceHandle_v8_t* device = nullptr;
      s.must("accept", [&] { return s.net().accept(listener.get(), &comm, &device); });
      s.require(comm != nullptr || deadline.wait(),
                "accept did not get past {} strangers on its port", callers.size());
    }
    recv.reset(comm);
  }
  Wire wire(s, std::move(send), std::move(recv));
  exchange(s, wire, {single(100), single(100000)});
  s.meet("data has come");
}
}  // namespace

CheckCases failure_cases() {
  return {
      {"C50-close-unmatched", "comms may be closed with receives posted that nothing matched", 2,
       &close_with_unmatched},
      {"C51-send-too-large",
       "a message larger than its receive buffer is an error at one end at least, and nothing is "
       "written past the buffer",
       2, &send_too_large},
      {"C52-death-before-receive", "receiving from a peer that was killed becomes an error", 2,
       &receiver_sees_death, 1},
      {"C53-death-with-receive-posted", "a posted receive becomes an error when the peer is killed",
       2, &posted_receiver_sees_death, 1},
      {"C54-death-before-send", "sending to a peer that was killed becomes an error", 2,
       &sender_sees_death, 1},
      {"C55-death-while-sending", "a peer killed in mid-stream becomes an error at the sender", 2,
       &busy_sender_sees_death, 1},
      {"C56-death-while-connecting",
       "a peer killed after its connect began becomes an error at the acceptor", 2,
       &connecting_peer_dies, 1},
      {"C57-death-while-accepting",
       "a listener killed before it accepted becomes an error of "
       "connect",
       2, &listening_peer_dies, 0},
      {"C58-strangers",
       "strangers on the listening port, silent, closing or sending random bytes, change nothing",
       2, &strangers},
  };
}

}  // namespace gdr::tools
