// Frames on the non-blocking TCP socket of one connection. Never blocks; a call does what it can
// and says whether it is finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

struct Frame {
  wire::FrameKind kind;
  std::vector<uint8_t> body;

  std::string text() const;  // of kRefuse, kFailed and kState; printable characters only
  Result<wire::EndPoint> end_point() const;  // of kHello and kReply
};

class FrameChannel {
 public:
  FrameChannel() = default;
  explicit FrameChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }

  void queue(wire::FrameKind kind, const void* body, size_t bytes);
  void queue(const wire::EndPoint& body, wire::FrameKind kind) { queue(kind, &body, sizeof(body)); }
  void queue_text(wire::FrameKind kind, std::string_view text);

  // True when all that was queued has been handed to the kernel.
  Result<bool> flush();

  // The next whole frame, if it is there. An orderly or abrupt end of the stream is a kRemote
  // error.
  Result<std::optional<Frame>> receive();

 private:
  Status read_available(size_t wanted);

  UniqueFd socket_;
  std::vector<uint8_t> outgoing_;
  size_t sent_ = 0;
  std::vector<uint8_t> incoming_;
};

}  // namespace gdr::transport
