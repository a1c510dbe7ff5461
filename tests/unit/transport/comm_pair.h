// A sender and a receiver in one process, connected over a fake fabric. The one place of the tests
// that knows how options and comms are made.
#pragma once

#include <endian.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/data/receive_comm.h"
#include "transport/data/send_comm.h"
#include "transport/data/test_request.h"
#include "transport/memory/registrar.h"
#include "transport/transport.h"

namespace gdr::transport {

inline constexpr wire::Secret kSecret{1, 2, 3};
inline constexpr int kReceiveDepth = 32 * wire::kMaxGroup + 2 * 64;  // receives posted per QP

inline sockaddr_storage loopback_address() {
  sockaddr_storage address{};
  auto* in = reinterpret_cast<sockaddr_in*>(&address);
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Options of a connection on the loopback interface, without adaptive routing.
inline TransportOptions test_options() {
  TransportOptions options;
  options.connection.adaptive_routing = false;
  options.connection.spare_memory = 0;
  options.bind_address = loopback_address();
  return options;
}

// The max_msg_sz of a port, where a test sends more than that. It is 1 GiB on mlx5 and 8 MiB on
// Soft-RoCE.
inline constexpr uint32_t kPortsMost = 4096;

// With adaptive routing for messages of more than so many bytes.
inline TransportOptions adaptive_options(size_t threshold = 0) {
  TransportOptions options = test_options();
  options.connection.adaptive_routing = true;
  options.connection.adaptive_routing_threshold = threshold;
  return options;
}

inline TransportOptions without_failover() {
  TransportOptions options = test_options();
  options.connection.failover = false;
  return options;
}

// With that many QPs per connection, which carry a part of each message, or messages in turn.
inline TransportOptions options_of_qps(int qps, bool split) {
  TransportOptions options = test_options();
  options.connection.qps_per_connection = qps;
  options.connection.split_data_on_qps = split;
  return options;
}

template <class Options>
std::shared_ptr<const Options> shared(const Options& options) {
  return std::make_shared<const Options>(options);
}

// Calls `ready` until it returns true. The limit is there for tests that fail, not a measurement.
inline bool wait_for(const std::function<bool()>& ready) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > limit) return false;
  }
  return true;
}

// A clock that a test moves.
struct ManualClock {
  Clock::time_point now = Clock::now();

  Now as_now() {
    return [this] { return now; };
  }
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Names the part that is missing.
inline testing::AssertionResult contains_all(const std::string& text,
                                             const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (!contains(text, part)) return testing::AssertionFailure() << part << " is not in: " << text;
  }
  return testing::AssertionSuccess();
}

// One buffer of a grouped receive.
struct ReceiveBuffer {
  void* data;
  size_t bytes;
  int tag;
  const MemoryHandle* memory;  // registers data
};

// Host memory, registered for one comm.
struct Buffer {
  std::vector<char> bytes;
  std::unique_ptr<MemoryHandle> memory;

  char* data() { return bytes.data(); }
  ReceiveBuffer receive(size_t size, int tag = 0) { return {data(), size, tag, memory.get()}; }
  // From here on the transport treats it as GPU memory that the HCA reaches directly.
  void pose_as_gpu_memory() { memory->host = false; }
};

// The parallel arrays of the buffers of a grouped receive.
class Arrays {
 public:
  explicit Arrays(std::span<const ReceiveBuffer> buffers) {
    for (const ReceiveBuffer& buffer : buffers) {
      data_.push_back(buffer.data);
      bytes_.push_back(buffer.bytes);
      tags_.push_back(buffer.tag);
      memory_.push_back(const_cast<MemoryHandle*>(buffer.memory));
    }
  }
  explicit Arrays(const ReceiveBuffer& buffer) : Arrays(std::span(&buffer, 1)) {}

  ReceiveArrays get() const {
    return {static_cast<int>(data_.size()), data_.data(), bytes_.data(), tags_.data(),
            memory_.data()};
  }

 private:
  std::vector<void*> data_;
  std::vector<size_t> bytes_;
  std::vector<int> tags_;
  std::vector<void*> memory_;
};

// Two HCAs of one port each, "fake_a" and "fake_b", and the background thread. A test may change
// `options` before it makes comms.
struct Fabric {
  // max_msg_sz: of the sender's port.
  explicit Fabric(const TransportOptions& with = test_options(), bool roce = false,
                  uint32_t max_msg_sz = 1u << 30)
      : options(with) {
    using fake_verbs::HcaConfig;
    HcaConfig sending = roce ? HcaConfig::roce("fake_a", 1) : HcaConfig::infiniband("fake_a", 1);
    sending.ports[0].max_msg_sz = max_msg_sz;
    sender_device = open(verbs.add_hca(sending));
    receiver_device = open(
        verbs.add_hca(roce ? HcaConfig::roce("fake_b", 2) : HcaConfig::infiniband("fake_b", 2)));
  }

  Device open(ibv_device* device) {
    auto hca = HcaContext::open(verbs.api(), device).value();
    Device port{hca, 1, query_port_state(hca->api(), hca->context(), 1).value(), -1};
    watcher->add_hca(hca);
    return port;
  }
  Result<std::unique_ptr<SendComm>> make_sender() {
    return SendComm::create({{sender_device}, {}}, shared(options.connection), watcher.get(), {});
  }
  Result<std::unique_ptr<ReceiveComm>> make_receiver(int qps = 1) {
    wire::EndPoint hello{};
    hello.rails = 1;
    hello.qps = static_cast<decltype(hello.qps)>(qps);
    return ReceiveComm::create({{receiver_device}, {}}, shared(options.connection), watcher.get(),
                               hello);
  }
  // Memory that is registered for a comm, each byte of it `fill`.
  template <class Comm>
  Buffer make_buffer(Comm& comm, size_t bytes, char fill) {
    Buffer buffer{std::vector<char>(bytes, fill), nullptr};
    Registrar registrar(shared(options.memory));
    MemoryRegion region{};
    region.address = reinterpret_cast<uintptr_t>(buffer.data());
    region.bytes = bytes;
    buffer.memory =
        registrar.register_memory(comm.connection().registration_scope(), region).value();
    return buffer;
  }

  fake_verbs::FakeVerbs verbs;
  TransportOptions options;
  std::unique_ptr<Watcher> watcher = Watcher::start(std::chrono::seconds(0)).value();
  Device sender_device;
  Device receiver_device;
};

// What test() answers.
struct Outcome {
  bool alive = true;
  bool done = false;
  std::array<int, wire::kMaxGroup> sizes{};
  Code error = Code::kInternal;
};

inline wire::Immediate immediate_of(const fake_verbs::Posted& work) {
  return wire::decode(be32toh(work.imm_data));
}

inline Outcome test_once(Request* request) {
  Outcome outcome;
  int done = 0;
  outcome.alive = test(request, &done, outcome.sizes.data(), &outcome.error);
  outcome.done = done != 0;
  return outcome;
}

// Tests a request until it is done or its comm fails; not done after many tries: it has to wait.
inline Outcome finish(Request* request) {
  Outcome outcome;
  for (int i = 0; i < 1000 && outcome.alive && !outcome.done; ++i) outcome = test_once(request);
  return outcome;
}

template <class Comm>
wire::EndPoint end_of(const Comm& comm) {
  return comm.end_point(kSecret);
}
// The tables that the comm has in registered memory, which its peer writes.
template <class Comm>
wire::Tables& tables_of(const Comm& comm) {
  return *reinterpret_cast<wire::Tables*>(end_of(comm).tables_address);
}
template <class Comm>
uint32_t qp_number(const Comm& comm, int index = 0) {
  return end_of(comm).qp[static_cast<size_t>(index)].number;
}
template <class Comm>
Error failure_of(Comm& comm) {
  return comm.connection().link().failure();
}

inline std::array<UniqueFd, 2> local_socket_pair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Both ends of a connection over a fabric, once they are made.
struct Ends : Fabric {
  using Fabric::Fabric;

  Buffer sender_buffer(size_t bytes, char fill = 's') { return make_buffer(*sender, bytes, fill); }
  Buffer receiver_buffer(size_t bytes, char fill = 'r') {
    return make_buffer(*receiver, bytes, fill);
  }

  // Null where the comm says "call again". A failed comm fails the test.
  Request* irecv(const std::vector<ReceiveBuffer>& buffers) {
    Request* request = nullptr;
    EXPECT_TRUE(receiver->irecv(Arrays(buffers).get(), &request));
    return request;
  }
  Request* irecv(Buffer& buffer, int tag = 0) {
    return irecv({buffer.receive(buffer.bytes.size(), tag)});
  }
  Request* isend(const char* data, size_t bytes, const Buffer& of, int tag = 0) {
    Request* request = nullptr;
    EXPECT_TRUE(sender->isend(data, bytes, tag, *of.memory, &request));
    return request;
  }
  Request* isend(Buffer& buffer, int tag = 0) {
    return isend(buffer.data(), buffer.bytes.size(), buffer, tag);
  }
  // Whether the comm fails instead of sending.
  bool isend_fails(const Buffer& of, int tag = 0) {
    Request* request = nullptr;
    const bool alive = sender->isend(of.bytes.data(), of.bytes.size(), tag, *of.memory, &request);
    EXPECT_EQ(request, nullptr);
    return !alive;
  }

  // What was posted on the QPs of one end.
  template <class Comm>
  std::vector<fake_verbs::Posted> posted_by(const Comm& comm) {
    return posted_by(end_of(comm));
  }
  std::vector<fake_verbs::Posted> posted_by(const wire::EndPoint& end) {
    std::vector<fake_verbs::Posted> some;
    for (const fake_verbs::Posted& work : verbs.posted()) {
      for (int i = 0; i < end.qps; ++i) {
        if (work.qp_num == end.qp[static_cast<size_t>(i)].number) some.push_back(work);
      }
    }
    return some;
  }

  std::unique_ptr<SendComm> sender;
  std::unique_ptr<ReceiveComm> receiver;
};

// A connected pair. What was posted to connect it is forgotten.
struct CommPair : Ends {
  // between: called after the sender is made and before the receiver is; may be null.
  explicit CommPair(const TransportOptions& with = test_options(), bool roce = false,
                    std::array<UniqueFd, 2> sockets = local_socket_pair(),
                    uint32_t max_msg_sz = 1u << 30,
                    const std::function<void(Fabric&)>& between = nullptr)
      : Ends(with, roce, max_msg_sz) {
    sender = make_sender().value();
    if (between) between(*this);
    receiver = make_receiver(options.connection.qps_per_connection).value();
    EXPECT_TRUE(receiver->connect(end_of(*sender)).value());
    EXPECT_TRUE(sender->connect(end_of(*receiver)).value());
    sender->keep_link(FrameChannel(std::move(sockets[0])));
    receiver->keep_link(FrameChannel(std::move(sockets[1])));
    verbs.forget_posted();
  }

  // Sends `count` messages of one byte, each into a receive of its own.
  void exchange(int count) {
    Buffer from = sender_buffer(1);
    Buffer to = receiver_buffer(1);
    for (int i = 0; i < count; ++i) {
      Request* receive = irecv(to);
      ASSERT_NE(receive, nullptr) << i;
      Request* send = isend(from);
      ASSERT_NE(send, nullptr) << i;
      ASSERT_TRUE(finish(receive).done) << i;
      ASSERT_TRUE(finish(send).done) << i;
    }
  }
};

// A connected pair, and memory of as many bytes at each end.
struct BufferedPair : CommPair {
  explicit BufferedPair(size_t bytes = 1, const TransportOptions& with = test_options(),
                        uint32_t max_msg_sz = 1u << 30)
      : CommPair(with, false, local_socket_pair(), max_msg_sz),
        from(sender_buffer(bytes)),
        to(receiver_buffer(bytes)) {}

  Buffer from;
  Buffer to;
};

}  // namespace gdr::transport
