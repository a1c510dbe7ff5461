// Connections, registrations and buffers of a case, whose closing and deregistering must succeed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/conformance/session.h"
#include "tools/conformance/traffic.h"
#include "tools/ranks/link.h"

namespace gdr::tools {

// A message buffer with guard bytes on both sides, which detect writes outside of the buffer.
class GuardedBuffer {
 public:
  // The data begins `misalign` bytes past a multiple of 64 and is filled with kBlank.
  explicit GuardedBuffer(size_t bytes, size_t misalign = 0);

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Returns an empty text if the guards, and the data from `used` on, are unchanged; else a
  // description of the first changed byte.
  std::string damage(size_t used) const;

  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kGuard = 0xa7;
  static constexpr uint8_t kBlank = 0x3c;

 private:
  std::vector<char> memory_;
  char* data_;
  size_t bytes_;
};

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
  // The end that this rank has, where it has one only, and what is posted there.
  void* comm() const { return send_ ? send_comm() : recv_comm(); }
  Op::Kind kind() const { return send_ ? Op::Kind::kSend : Op::Kind::kRecv; }

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

// A guarded buffer that is registered with a comm, for one message.
class MessageBuffer : public GuardedBuffer {
 public:
  MessageBuffer(Session& session, Op::Kind kind, void* comm, size_t bytes, size_t misalign = 0)
      : GuardedBuffer(bytes, misalign),
        kind_(kind),
        comm_(comm),
        registration_(session, comm, data(), bytes) {}
  MessageBuffer(Session& session, const TestConnection& connection, size_t bytes)
      : MessageBuffer(session, connection.kind(), connection.comm(), bytes) {}

  Op op() { return single_op(kind_, comm_, data(), bytes(), registration_.get()); }

 private:
  Op::Kind kind_;
  void* comm_;
  CheckedRegistration registration_;
};

}  // namespace gdr::tools
