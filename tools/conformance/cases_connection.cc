// C1x: listen, connect, accept and close.
#include <array>
#include <filesystem>
#include <thread>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
constexpr size_t kManyConnections = 40;

// A handle with guard bytes after it.
struct GuardedHandle {
  std::array<unsigned char, abi::kHandleMaxBytes + 64> bytes;
  GuardedHandle() { bytes.fill(0xd5); }
  void* data() { return bytes.data(); }
  bool intact() const {
    for (size_t i = abi::kHandleMaxBytes; i < bytes.size(); ++i) {
      if (bytes[i] != 0xd5) return false;
    }
    return true;
  }
};

// A proxy thread of NCCL serves many connections (src/proxy.cc). A call that waits for the peer
// stops all of them, and deadlocks when the peer's proxy waits in the same way.
void expect_prompt(Session& s, const char* name) {
  s.require(s.call_seconds() <= s.options().call_limit_seconds,
            "{} took {:.2f} s; a call longer than {:.2f} s blocks NCCL's proxy", name,
            s.call_seconds(), s.options().call_limit_seconds);
}

NetComm listen_checked(Session& s, GuardedHandle& handle) {
  void* comm = nullptr;
  s.must("listen", [&] { return s.net().listen(s.context(), s.dev(), handle.data(), &comm); });
  expect_prompt(s, "listen");
  s.require(comm != nullptr, "listen succeeded without a listenComm");
  s.require(handle.intact(), "listen wrote past the {} bytes of the handle", abi::kHandleMaxBytes);
  return own_listen(s.net(), comm);
}

// Calls connect once. NCCL calls it again with the same handle until it returns a comm, so a plugin
// may keep its state in the handle.
NetComm connect_once(Session& s, void* handle) {
  void* comm = nullptr;
  s.must("connect", [&] { return s.net().connect(s.context(), s.dev(), handle, &comm); });
  expect_prompt(s, "connect");
  return own_send(s.net(), comm);
}

NetComm accept_once(Session& s, void* listener) {
  void* comm = nullptr;
  s.must("accept", [&] { return s.net().accept(listener, &comm); });
  expect_prompt(s, "accept");
  return own_recv(s.net(), comm);
}

void poll_for(Session& s, double seconds, const std::function<void()>& step) {
  for (Deadline deadline(s, seconds); deadline.wait();) {
    step();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void listen_returns(Session& s) {
  s.open();
  GuardedHandle one;
  GuardedHandle two;
  NetComm first = listen_checked(s, one);
  NetComm second = listen_checked(s, two);
  s.require(first.get() != second.get(), "two listens returned the same listenComm");
  s.require(one.bytes != two.bytes, "two listens returned the same handle");
}

// One side starts late. Each call of the other side must return at once, with or without a comm,
// and later calls with the same handle must complete the connection. Then data is exchanged.
template <bool acceptor_is_late>
void late_side(Session& s) {
  constexpr double kLateSeconds = 0.4;
  s.open();
  GuardedHandle handle;
  NetComm listener = own_listen(s.net());
  if (s.rank() == 1) listener = listen_checked(s, handle);
  std::string bytes(reinterpret_cast<const char*>(handle.bytes.data()), abi::kHandleMaxBytes);
  std::string theirs = s.allgather("handle", bytes)[1];
  std::copy(theirs.begin(), theirs.end(), handle.bytes.begin());

  NetComm send = own_send(s.net());
  NetComm recv = own_recv(s.net());
  auto step = [&] {
    if (s.rank() == 0 && !send) send = connect_once(s, handle.data());
    if (s.rank() == 1 && !recv) recv = accept_once(s, listener.get());
  };
  bool late = (s.rank() == 1) == acceptor_is_late;
  if (!late) poll_for(s, kLateSeconds, step);
  s.require(acceptor_is_late || s.rank() != 1 || !recv,
            "accept returned a comm before any connect");
  s.meet("the late side starts");
  Deadline deadline(s, s.options().timeout_seconds);
  while (s.rank() == 0 ? !send : !recv) {
    step();
    s.require(deadline.wait(), "{} returned no comm in {:.0f} s",
              s.rank() == 0 ? "connect" : "accept", s.options().timeout_seconds);
  }
  listener.reset();
  TestConnection connection(s, std::move(send), std::move(recv));
  exchange(s, connection, {single(0), single(10000)});
  s.meet("data has arrived");
}

// NCCL has one connection for each channel and peer, so tens of them between two processes are
// usual.
void many_connections(Session& s) {
  s.open();
  std::vector<TestConnection> connections =
      open_connections(s, std::vector<LinkSpec>(kManyConnections, LinkSpec{0, 1}));
  exchange_all(s, connections, {single(8), single(3000), single(0), single(40000)});
  s.meet("all data has arrived");
}

// Ranks of one process connect by the same calls. Here a single thread drives both ends.
void same_process(Session& s) {
  s.open();
  std::vector<TestConnection> connections = open_connections(s, {{0, 0}, {0, 0}});
  exchange_all(s, connections, {single(1), single(100000), single(3000000), single(0)});
}

size_t open_descriptors() {
  std::error_code ignored;
  const std::filesystem::directory_iterator folder("/proc/self/fd", ignored);
  return static_cast<size_t>(std::distance(begin(folder), end(folder)));
}

// A job may create and destroy communicators for days, so a leak of descriptors would end it.
void descriptors_return(Session& s) {
  constexpr int kRounds = 30;
  constexpr size_t kSlack = 8;  // descriptors that a plugin may keep open from its first connection
  s.open();
  size_t before = 0;
  for (int round = 0; round < kRounds; ++round) {
    {
      TestConnection connection = open_connection(s, 0, 0);
      exchange(s, connection, {single(100)});
    }
    if (round == 0) before = open_descriptors();
  }
  size_t after = open_descriptors();
  s.require(after <= before + kSlack, "{} file descriptors after the first connection, {} after {}",
            before, after, kRounds);
}

// Connects in the opposite order of the listens: a listenComm must only accept connections made
// with its own handle.
void listeners_in_any_order(Session& s) {
  constexpr size_t kListeners = 6;
  s.open();
  std::vector<GuardedHandle> handles(kListeners);
  std::vector<NetComm> listeners;
  for (GuardedHandle& handle : handles) listeners.push_back(listen_checked(s, handle));
  std::vector<TestConnection> connections;
  for (size_t i = kListeners; i-- > 0;) {
    NetComm send = own_send(s.net());
    NetComm recv = own_recv(s.net());
    Deadline deadline(s, s.options().timeout_seconds);
    while (!send || !recv) {
      if (!send) send = connect_once(s, handles[i].data());
      if (!recv) recv = accept_once(s, listeners[i].get());
      s.require(deadline.wait(), "no connection in {:.0f} s", s.options().timeout_seconds);
    }
    listeners[i].reset();
    connections.emplace_back(s, std::move(send), std::move(recv));
  }
  exchange_all(s, connections, {single(2000)});
}
}  // namespace

ConformanceCases connection_cases() {
  return {
      {"C10-listen",
       "listen returns at once with a listenComm and a unique handle of at most 128 bytes", 1,
       &listen_returns},
      {"C11-connect-never-blocks",
       "connect returns at once before the peer accepts, and completes when called again with the "
       "same handle",
       2, &late_side<true>},
      {"C12-accept-never-blocks",
       "accept returns at once, without a comm, before a peer connects, and completes later", 2,
       &late_side<false>},
      {"C13-listeners-in-any-order", "each listenComm accepts the connection made with its handle",
       1, &listeners_in_any_order},
      {"C14-many-connections", "40 connections between two processes work at the same time", 2,
       &many_connections},
      {"C16-same-process", "both ends of a connection may be in one process", 1, &same_process},
      {"C19-descriptors", "closing a connection closes its file descriptors", 1,
       &descriptors_return},
  };
}

}  // namespace gdr::tools
