// Frames of the handshake on a connection's TCP socket. No call blocks: each does what is possible
// now and returns whether it finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/wire/tcp.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Refuses a peer that runs another wire version, with the text that names both. kInvalidUsage.
Status check_version(uint16_t peer);
// The error of a peer whose frame, handshake or handle, as `what` says, has counts, indices or
// fields that are out of their limits or that this wire version does not know. kInternal.
tl::unexpected<Error> fail_unknown(const char* what);

// A received frame. The body is as the peer sent it; the accessors check it.
struct Frame {
  wire::FrameKind kind;
  std::vector<uint8_t> body;

  // The text of kRefuse, kFailed and kState. Bytes that are not printable ASCII become '?'.
  std::string text() const;
  // The end point of kHello and kReply, with terminated strings of printable ASCII, and with counts
  // and indices within the limits of wire.h; kInternal if the peer's is not valid.
  Result<wire::EndPoint> end_point() const;
  // The body of kReopen and kKnown; unset if it has another size.
  std::optional<wire::EndProof> proof() const;
  // The body of kPair; unset if this version does not know it.
  std::optional<wire::PairStatement> pair_statement() const;
};

// Owns the socket. Not thread-safe. A default-constructed channel has no socket and is not valid.
class FrameChannel {
 public:
  FrameChannel() = default;
  explicit FrameChannel(UniqueFd socket)
      : socket_(std::move(socket)), peer_(peer_address(socket_.get())) {}

  int fd() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }
  // The address of the other end, also once the connection has ended; of no family where it is not
  // one of TCP.
  const sockaddr_storage& peer() const { return peer_; }

  // Without a socket: begins to connect (start_connect_tcp). Returns whether the connection is
  // there. After an error there is no socket; ECONNREFUSED: nobody listens at `to`.
  Result<bool> connect(const sockaddr_storage& to, const sockaddr_storage& from);

  // Appends a frame to those that flush() sends. A text is cut to wire::kMaxText bytes.
  void queue(wire::FrameKind kind, const void* body, size_t bytes);
  void queue(const wire::EndPoint& body, wire::FrameKind kind) { queue(kind, &body, sizeof(body)); }
  void queue_text(wire::FrameKind kind, std::string_view text);
  // Sends kRefuse with the error's text, as far as the socket takes it, and returns the error.
  tl::unexpected<Error> refuse(Error error);

  // Sends queued frames. Returns whether the kernel has taken all of them; kRemote if the socket
  // broke.
  Result<bool> flush();
  // Goes on with the other's socket and what is queued there. The number of this one's descriptor
  // stays. Returns whether that was possible; nothing has changed otherwise.
  bool replace_socket(FrameChannel other);

  // Whether the peer has ended the stream or the connection broke, and nothing is left to read. The
  // error stays, for receive().
  bool has_ended() const;

  // Returns the next frame, if all of it has arrived. kRemote if the peer closed the socket or it
  // broke; kInternal or kInvalidUsage (another wire version) if the bytes are not a valid frame.
  Result<std::optional<Frame>> receive();

 private:
  Status read_available(size_t wanted);

  UniqueFd socket_;
  sockaddr_storage peer_{};
  int send_error_ = 0;  // errno value; nothing is queued any more
  std::vector<uint8_t> outgoing_;
  size_t sent_ = 0;
  std::vector<uint8_t> incoming_;
};

}  // namespace gdr::transport
