// Connections of the reference plugin: one non-blocking TCP socket each. The receiver announces
// each receive by a clear-to-send, and the sender answers with one frame per buffer, so that a
// buffer exists for all data that arrives.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

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

// Sender to receiver, before each message's bytes.
struct DataHeader {
  uint32_t sequence = 0;
  uint32_t slot = 0;
  uint64_t bytes = 0;
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
  // Of a send: header, and bytes of header and payload that have been written.
  DataHeader header;
  size_t moved = 0;
  // Of a receive: buffers that are not filled yet.
  uint32_t left = 0;
  uint32_t buffers = 1;
  std::array<char*, abi::kMaxRecvs> data{};
  std::array<size_t, abi::kMaxRecvs> room{};
  std::array<size_t, abi::kMaxRecvs> sizes{};
  std::array<Event, abi::kMaxRecvs> events;
  bool optional = false;  // NCCL does not need the completion of this receive
};

// The part that sending and receiving ends share: the socket, the requests and the error state.
class Comm {
 public:
  explicit Comm(UniqueFd fd) : fd_(std::move(fd)) {}
  virtual ~Comm();
  virtual void progress() = 0;

  // The table's test(): sets *done and *sizes, and deletes a finished request.
  abi::ncclResult_t test(Request* request, int* done, int* sizes);

 protected:
  // Return the number of bytes, or 0 when the socket would block. A dead peer sets broken_.
  size_t read_some(void* into, size_t bytes);
  size_t write_some(const void* from, size_t bytes);
  Request* add_request();

  UniqueFd fd_;
  bool broken_ = false;
  std::deque<std::unique_ptr<Request>> requests_;  // in order of posting
};

class SendComm : public Comm {
 public:
  using Comm::Comm;
  abi::ncclResult_t isend(void* data, size_t bytes, int tag, void* phandle, void** request);
  void progress() override;

 private:
  struct Waiting {
    ClearToSend clear;
    std::array<bool, abi::kMaxRecvs> taken{};
    uint32_t left = 0;
  };
  void read_clear_to_send();
  bool write_message(Request& request);

  std::deque<Waiting> clears_;
  ClearToSend partial_;
  size_t partial_bytes_ = 0;
};

class RecvComm : public Comm {
 public:
  using Comm::Comm;
  abi::ncclResult_t irecv(int n, void** data, const size_t* sizes, const int* tags, void** phandles,
                          void** request);
  void progress() override;

 private:
  bool read_header();
  bool read_payload();

  uint32_t next_sequence_ = 0;
  std::string out_;  // clear-to-sends that are not written yet
  DataHeader header_;
  size_t header_bytes_ = 0;
  Request* filling_ = nullptr;
  size_t payload_bytes_ = 0;
};

}  // namespace gdr::reference
