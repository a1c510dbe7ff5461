// Connections of the reference plugin: one local socket each, which keeps packets apart. The
// receiver announces each receive by a clear-to-send, and the sender answers with the packets of a
// message per buffer, so that a buffer exists for all data that arrives.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/unique_fd.h"
#include "plugin/abi/nccl_types.h"

namespace gdr::reference {

// Receiver to sender, for each receive.
struct ClearToSend {
  uint32_t sequence = 0;
  uint32_t buffers = 0;
  std::array<uint64_t, abi::kMaxRecvs> sizes{};
  std::array<int32_t, abi::kMaxRecvs> tags{};
};

// Sender to receiver, before the bytes of each packet of a message.
struct DataHeader {
  uint32_t sequence = 0;
  uint32_t slot = 0;
  uint64_t bytes = 0;   // of the message
  uint64_t offset = 0;  // of the packet's bytes in it
};

struct Packet {
  DataHeader header;
  std::array<char, 128 << 10> data;
};

// The callback of the last init; null before v10. A process has one profiler.
inline std::atomic<abi::ncclProfilerCallback_t> g_profiler{nullptr};

// An event for NCCL's profiler: one per send and per buffer of a receive.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { stop(); }

  void start(void* phandle);
  void stop();

 private:
  void* handle_ = nullptr;  // null where the profiler does not record the event
  bool open_ = false;
};

class Comm;

struct Request {
  Comm* comm = nullptr;
  bool done = false;
  uint32_t sequence = 0;
  DataHeader header;  // of a send: that of the next packet
  // Of a receive: buffers that are not filled yet.
  uint32_t left = 0;
  uint32_t buffers = 1;
  std::array<char*, abi::kMaxRecvs> data{};
  std::array<size_t, abi::kMaxRecvs> room{};
  std::array<size_t, abi::kMaxRecvs> sizes{};
  std::array<Event, abi::kMaxRecvs> events;
  bool optional = false;  // NCCL does not need the completion of this receive
};

// The contents of the handle. The connecting side keeps its state there between calls.
struct Handle {
  std::array<char, 6> name{};  // which the kernel has given the listening socket
  class SendComm* connecting = nullptr;
};
static_assert(sizeof(Handle) <= abi::kHandleMaxBytes);

// The part that sending and receiving ends share: the socket, the requests and the error state.
class Comm {
 public:
  explicit Comm(UniqueFd fd) : fd_(std::move(fd)) {}
  virtual ~Comm();
  virtual void progress() = 0;

  // The table's test(): sets *done and *sizes, and deletes a finished request.
  abi::ncclResult_t test(Request* request, int* done, int* sizes);

 protected:
  // Return false when the socket would block. A dead peer sets broken_.
  bool read_packet(void* into, size_t room, size_t* bytes = nullptr);
  bool write_packet(void* from, size_t bytes, char* more = nullptr, size_t more_bytes = 0);
  Request* add_request();

  UniqueFd fd_;
  bool broken_ = false;
  std::deque<std::unique_ptr<Request>> requests_;  // in order of posting
};

class SendComm : public Comm {
 public:
  using Comm::Comm;
  // Connects; null where nobody listens.
  static SendComm* start(const Handle& handle);
  // Waits for one byte of welcome.
  abi::ncclResult_t step(bool* is_welcome);
  abi::ncclResult_t isend(void* data, size_t bytes, int tag, void* phandle, void** request);
  void progress() override;

 private:
  struct Waiting {
    ClearToSend clear;
    std::array<bool, abi::kMaxRecvs> taken{};
    uint32_t left = 0;
  };
  bool write_message(Request& request);

  std::deque<Waiting> clears_;
};

class RecvComm : public Comm {
 public:
  using Comm::Comm;
  abi::ncclResult_t irecv(int n, void** data, const size_t* sizes, const int* tags, void** phandles,
                          void** request);
  void progress() override;

 private:
  void take(size_t bytes);

  uint32_t next_sequence_ = 0;
  std::deque<ClearToSend> out_;  // that are not written yet
  Packet packet_;
};

class ListenComm {
 public:
  static ListenComm* open(Handle* handle);
  abi::ncclResult_t accept(RecvComm** comm);

 private:
  UniqueFd fd_;
};

}  // namespace gdr::reference
