// Connections are set up over the software HCA while others connect to the handshake ports: a port
// scan, health checks, a program that has the wrong port.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "plugin/discovery/discovery.h"
#include "transport/transport.h"

namespace gdr::transport {
namespace {

constexpr int kConnections = 64;

TransportOptions loopback_options() {
  TransportOptions options;
  auto* in = reinterpret_cast<sockaddr_in*>(&options.bind_address);
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return options;
}

std::unique_ptr<Transport> make_transport() {
  auto api = verbs::Api::load().value();
  return Transport::create(discovery::discover_devices(api, {}).value().devices, loopback_options())
      .value();
}

// A connection to the port of a handle, which the peer may drop at any time.
UniqueFd connect_to(const wire::Handle& handle) {
  const sockaddr_storage to = read_address(handle).value();
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in));
  return fd;
}

// The two ends of one connection.
struct Pair {
  std::unique_ptr<Listener> listener;
  wire::Handle handle{};
  std::unique_ptr<SendComm> sender;
  std::unique_ptr<ReceiveComm> receiver;

  bool is_connected() const { return sender != nullptr && receiver != nullptr; }
};

struct Scan : testing::Test {
  std::unique_ptr<Transport> transport = make_transport();
  std::vector<Pair> pairs{kConnections};

  void SetUp() override {
    for (Pair& pair : pairs) {
      pair.listener = transport->listen(transport::RailChoice{{0}, {}}).value();
      pair.listener->write_handle(&pair.handle);
    }
  }
  void step_sender(Pair& pair) {
    if (pair.sender != nullptr) return;
    auto comm = transport->connect(transport::RailChoice{{0}, {}}, &pair.handle);
    ASSERT_TRUE(comm) << comm.error().text;
    pair.sender = std::move(*comm);
  }
  void step_receiver(Pair& pair) {
    if (pair.receiver != nullptr) return;
    auto comm = pair.listener->accept();
    ASSERT_TRUE(comm) << comm.error().text;
    pair.receiver = std::move(*comm);
  }
  // Drives both ends of the pairs from `first` to `last` as NCCL's service threads do, one after
  // the other, with a pause between the senders and the receivers. The limit is there for a test
  // that fails, not a measurement.
  void connect_all(size_t first, size_t last, std::chrono::milliseconds pause) {
    const auto begin = pairs.begin() + static_cast<ptrdiff_t>(first);
    const auto end = pairs.begin() + static_cast<ptrdiff_t>(last);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(90);
    while (!std::all_of(begin, end, [](const Pair& pair) { return pair.is_connected(); })) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      for (auto pair = begin; pair != end; ++pair) ASSERT_NO_FATAL_FAILURE(step_sender(*pair));
      std::this_thread::sleep_for(pause);
      for (auto pair = begin; pair != end; ++pair) ASSERT_NO_FATAL_FAILURE(step_receiver(*pair));
      std::this_thread::sleep_for(pause);
    }
  }
};

// 1,000 connections a second, for as long as eight after eight connections are set up: bursts of 80
// at one port after the other of those eight, which is more than a listener keeps pending. The
// service threads come by every 50 ms. Some of the scan's connections are silent, some send what is
// no hello, and some close at once.
TEST_F(Scan, AThousandASecond_AllConnect) {
  constexpr size_t kGroup = 8;
  std::atomic<size_t> group{0};
  std::atomic<bool> stop{false};
  std::vector<wire::Handle> handles;
  for (const Pair& pair : pairs) handles.push_back(pair.handle);
  std::thread scanner([&] {
    std::deque<UniqueFd> held;
    for (size_t burst = 0; !stop; ++burst) {
      const wire::Handle& handle = handles[group * kGroup + burst % kGroup];
      for (int i = 0; i < 80; ++i) {
        held.push_back(connect_to(handle));
        if (i % 3 == 1) (void)send(held.back().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
        if (i % 3 == 2) held.pop_back();
        if (held.size() > 500) held.pop_front();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(80));
    }
  });
  for (size_t i = 0; i < kConnections / kGroup && !HasFatalFailure(); ++i) {
    group = i;
    connect_all(i * kGroup, (i + 1) * kGroup, std::chrono::milliseconds(50));
  }
  stop = true;
  scanner.join();
}

}  // namespace
}  // namespace gdr::transport
