// Connections and registrations of a case, whose closing and deregistering must succeed.
#pragma once

#include <vector>

#include "tools/conformance/session.h"
#include "tools/ranks/link.h"

namespace gdr::tools {

class TestConnection {
 public:
  TestConnection(Session& session, NetComm send, NetComm recv)
      : session_(&session), send_(std::move(send)), recv_(std::move(recv)) {}
  TestConnection(TestConnection&&) = default;
  TestConnection& operator=(TestConnection&&) = default;
  ~TestConnection() {
    close_send();
    close_recv();
  }

  void* send_comm() const { return send_.get(); }  // null where this rank has no such end
  void* recv_comm() const { return recv_.get(); }

  // Close one end; they do nothing where this rank has no such end.
  void close_send();
  void close_recv();

 private:
  Session* session_;
  NetComm send_;
  NetComm recv_;
};

// Open connections. All ranks call these with the same arguments; the TestConnection of a rank that
// has no end is empty.
std::vector<TestConnection> open_connections(Session& session, const std::vector<LinkSpec>& specs);
TestConnection open_connection(Session& session, int from, int to);
// The same in another communicator, whose context Session::init returned.
std::vector<TestConnection> open_connections(Session& session, void* context,
                                             const std::vector<LinkSpec>& specs);
TestConnection open_connection(Session& session, void* context, int from, int to);

// Registers host memory with a comm, and deregisters it at the end of the scope; both must succeed.
// The scope must end before the comm is closed.
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
