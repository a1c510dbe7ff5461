// The receiving end of a connection. Its data path belongs to one thread.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transport/data/connection.h"
#include "transport/data/flush.h"
#include "transport/data/request.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/registered_block.h"

namespace gdr::transport {

// One buffer of a grouped receive.
struct ReceiveBuffer {
  void* data;
  size_t bytes;
  int tag;
  const MemoryHandle* memory;
};

class ReceiveComm : public Comm {
 public:
  static constexpr int kReceives = 32;  // grouped receives in flight
  static constexpr int kFlushes = 32;

  // qps: what the sender asked for.
  static Result<std::unique_ptr<ReceiveComm>> create(
      const Device& device, std::shared_ptr<const TransportOptions> options, Watcher* watcher,
      int qps);

  ~ReceiveComm();

  wire::EndPoint end_point(const wire::Secret& secret) const;
  // Takes the sender's kHello; afterwards data may arrive.
  Status connect(const wire::EndPoint& sender);

  // False when the connection has failed. A null *request means: nothing done, call again.
  bool irecv(const ReceiveBuffer* buffers, int count, Request** request);
  // Orders all data received so far before what follows. A null *request with true: nothing to wait
  // for.
  bool iflush(const ReceiveBuffer* buffers, int count, Request** request);
  // Reads completions. False when the connection has failed.
  bool progress();
  void release(Request* request);

 private:
  // A staged buffer: where its bytes arrive, and where they belong.
  struct StagedBuffer {
    Request* request;  // null: free
    const std::byte* host;
    std::byte* gpu;
    CopyStream* stream;
    uint64_t copied;  // bytes whose copy is launched
    uint64_t ticket;  // of the last copy
  };

  ReceiveComm(std::shared_ptr<const TransportOptions> options, Watcher* watcher);
  Status post_all_receives();
  bool post_receives(int qp, int count);
  bool announce();
  bool post_clear_to_send(uint64_t first, uint64_t end);
  [[gnu::always_inline]] bool on_completion(const ibv_wc& wc);
  [[gnu::always_inline]] bool on_arrival(const ibv_wc& wc);
  [[gnu::always_inline]] bool finish_buffer(Request* request);
  // Kept out of the direct path, which they would burden with what they save and restore.
  [[gnu::cold]] void stage_buffer(const ReceiveBuffer& buffer, Request* request, int index);
  [[gnu::cold]] bool copy_on(uint32_t slot, uint64_t bytes, bool complete);
  [[gnu::cold]] bool finish_copies();
  bool fail_protocol(const char* what);

  RegisteredBlock<wire::Tables> tables_;  // of rail 0 in this version
  std::optional<Flush> flush_;
  std::vector<const QueuePair*> queue_pairs_;
  std::vector<int> consumed_;  // receives taken by arrivals since the last refill, per QP
  uint64_t head_ = 0;          // first buffer of the next irecv
  uint64_t announced_ = 0;     // buffers before it have been told to the sender
  int open_ = 0;               // grouped receives told to the sender and not complete
  int waiting_ = 0;            // grouped receives not told yet
  int unconfirmed_ = 0;        // clear-to-send writes not yet known to be complete
  std::array<Request*, wire::kSlots> slots_{};  // the receive that waits in each slot
  std::array<StagedBuffer, wire::kSlots> staged_{};
  int staged_count_ = 0;  // of them in use
  // Slots of staged buffers that have arrived and are being copied, oldest first; indices count up.
  std::array<uint16_t, wire::kSlots> copying_;
  uint32_t copying_begin_ = 0;
  uint32_t copying_end_ = 0;
  uint64_t staged_bytes_ = 0;  // so far
  RequestPool<kReceives> receives_;
  RequestPool<kFlushes> flushes_;
};

}  // namespace gdr::transport
