// A connection of a case, closed with checked results.
#pragma once

#include <vector>

#include "tools/ranks/link.h"
#include "tools/conformance/session.h"

namespace gdr::tools {

class Wire {
 public:
  Wire(Session& session, NetComm send, NetComm recv)
      : session_(&session), send_(std::move(send)), recv_(std::move(recv)) {}
  Wire(Wire&&) = default;
  Wire& operator=(Wire&&) = default;
  ~Wire() {
    close_send();
    close_recv();
  }

  void* send_comm() const { return send_.get(); }  // null where this rank does not send
  void* recv_comm() const { return recv_.get(); }

  void close_send();  // nothing when there is none
  void close_recv();

 private:
  Session* session_;
  NetComm send_;
  NetComm recv_;
};

// All ranks call these with the same arguments; a rank without an end gets an empty Wire.
std::vector<Wire> open_wires(Session& session, const std::vector<LinkSpec>& specs);
Wire open_wire(Session& session, int from, int to);

// A registration whose dereg is checked. Must end before its comm is closed.
class CheckedRegistration {
 public:
  CheckedRegistration(Session& session, void* comm, void* data, size_t bytes);
  CheckedRegistration(CheckedRegistration&& other) noexcept
      : session_(other.session_),
        comm_(std::exchange(other.comm_, nullptr)),
        mhandle_(other.mhandle_) {}
  CheckedRegistration& operator=(CheckedRegistration&&) = delete;
  ~CheckedRegistration();

  void* get() const { return mhandle_; }

 private:
  Session* session_;
  void* comm_;
  void* mhandle_ = nullptr;
};

}  // namespace gdr::tools
