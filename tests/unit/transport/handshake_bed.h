// Both sides of the handshake over the loopback interface, and a raw peer that plays one of them.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "tests/unit/transport/comm_pair.h"
#include "transport/connector.h"
#include "transport/handshakes.h"
#include "transport/listener.h"
#include "transport/wire/frame_channel.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

struct HandshakeBed : Fabric {
  using Fabric::Fabric;

  // Lets that time pass for the handshakes; none passes otherwise.
  void skip(std::chrono::milliseconds duration) { time = time.load() + duration; }

  Result<std::unique_ptr<Listener>> make_listener() {
    return Listener::create(context(), RailChoice{{0}, {}});
  }
  Result<std::unique_ptr<Connector>> make_connector(const wire::Handle& handle) {
    return Connector::create(context(), EndRails{{sender_device}, {}}, handle);
  }

  HandshakeContext context() {
    return {&receiver_devices, shared(options), shared(options.connection), watcher.get(),
            &handshakes};
  }

  std::vector<Device> receiver_devices{receiver_device};
  std::atomic<Clock::time_point> time{Clock::now()};  // a watcher may ask, too
  Now now = [this] { return time.load(); };
  HandshakeRegistry handshakes{now, std::chrono::seconds(60)};
};

// Calls `step` until it returns a comm or an error; the null of a test that waits in vain.
template <class Step>
auto drive(const Step& step) {
  auto result = step();
  (void)wait_for([&] {
    if (!result || *result != nullptr) return true;
    result = step();
    return !result || *result != nullptr;
  });
  return result;
}

// Drives both sides until each has a result.
struct BothEnds {
  Result<std::unique_ptr<SendComm>> sender = nullptr;
  Result<std::unique_ptr<ReceiveComm>> receiver = nullptr;

  BothEnds(Connector& connector, Listener& listener) {
    (void)wait_for([&] {
      if (sender && *sender == nullptr) sender = connector.step();
      if (receiver && *receiver == nullptr) receiver = listener.accept();
      return (!sender || *sender != nullptr) && (!receiver || *receiver != nullptr);
    });
  }
};

inline wire::Handle handle_of(const Listener& listener) {
  wire::Handle handle{};
  listener.write_handle(&handle);
  return handle;
}

// A blocking socket that connects to a listener's handle.
inline UniqueFd connect_raw(const wire::Handle& handle) {
  const sockaddr_storage to = read_address(handle).value();
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in)), 0);
  return fd;
}

// Whether the other end has closed the connection, perhaps after some data.
inline bool is_closed(const UniqueFd& fd) {
  char bytes[256];
  for (;;) {
    const ssize_t n = recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0) continue;
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
}

// Lowers the limit of open files to those that are open.
struct NoMoreFiles {
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before);
    UniqueFd lowest(dup(0));
    rlimit limit{static_cast<rlim_t>(lowest.get()), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};

// A listening socket that stands for a receiver, and the one connection to it.
struct RawReceiver {
  ListeningSocket socket = listen_tcp(loopback_address()).value();
  FrameChannel channel;

  wire::Handle handle() const {
    wire::Handle handle{};
    handle.magic = wire::kMagic;
    handle.version = wire::kWireVersion;
    handle.secret = kSecret;
    write_address(socket.address, &handle);
    return handle;
  }
  void accept() {
    ASSERT_TRUE(wait_for([&] {
      auto fd = accept_tcp(socket.fd.get());
      if (!fd || !fd->has_value()) return false;
      channel = FrameChannel(std::move(**fd));
      return true;
    }));
  }
};

// The next frame; a failure of the test where none comes.
inline Result<Frame> next_frame(FrameChannel& channel) {
  Result<std::optional<Frame>> frame = std::nullopt;
  (void)wait_for([&] {
    frame = channel.receive();
    return !frame || frame->has_value();
  });
  if (!frame) return forward_error(frame);
  if (!frame->has_value()) return fail(Code::kInternal, "no frame came");
  return std::move(**frame);
}

}  // namespace gdr::transport
