// A peer on a socket that sends what an input says.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.h"
#include "tests/unit/transport/handshake_bed.h"

namespace gdr::fuzz {

// The first byte of an input: the form of the bed.
enum : uint8_t {
  kRoce = 1,
  kSubnetAware = 2,  // NCCL_IB_SUBNET_AWARE_ROUTING
};

struct FuzzBed : transport::HandshakeBed {
  explicit FuzzBed(uint8_t form) : transport::HandshakeBed(options_of(form), (form & kRoce) != 0) {}

  static transport::TransportOptions options_of(uint8_t form) {
    transport::TransportOptions options = transport::test_options();
    options.subnet_aware_routing = (form & kSubnetAware) != 0;
    options.connect_retries = 3;
    return options;
  }
};

// Makes closing the socket reset the connection, so that none stays in TIME_WAIT: there would be no
// free ports left after some thousand runs.
inline void reset_when_closed(int fd) {
  const linger now{1, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

inline UniqueFd connect_peer(const transport::wire::Handle& handle) {
  UniqueFd fd = transport::connect_raw(handle);
  reset_when_closed(fd.get());
  return fd;
}

// What the socket does not take is lost.
inline void send_bytes(int fd, std::span<const uint8_t> bytes) {
  if (fd >= 0) (void)send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// A frame whose header is right for its body.
inline std::vector<uint8_t> frame_of(uint8_t kind, std::span<const uint8_t> body) {
  namespace wire = transport::wire;
  const wire::FrameHeader header{wire::kMagic, wire::kWireVersion, wire::FrameKind{kind}, 0,
                                 static_cast<uint32_t>(body.size())};
  std::vector<uint8_t> frame(sizeof(header) + body.size());
  std::memcpy(frame.data(), &header, sizeof(header));
  std::copy(body.begin(), body.end(), frame.begin() + sizeof(header));
  return frame;
}

// The frame of a kHello or kReply that is valid, for Input::patch().
using EndPointFrame =
    std::array<uint8_t, sizeof(transport::wire::FrameHeader) + sizeof(transport::wire::EndPoint)>;
inline EndPointFrame end_point_frame(transport::wire::FrameKind kind,
                                     const transport::wire::EndPoint& end) {
  const auto* body = reinterpret_cast<const uint8_t*>(&end);
  EndPointFrame frame;
  std::ranges::copy(frame_of(static_cast<uint8_t>(kind), {body, sizeof(end)}), frame.begin());
  return frame;
}

}  // namespace gdr::fuzz
