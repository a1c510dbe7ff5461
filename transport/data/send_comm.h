// The sending end of a connection. Its data path belongs to one thread.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <optional>

#include "transport/data/connection.h"
#include "transport/data/request.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/registered_block.h"

namespace gdr::transport {

class SendComm : public Comm {
 public:
  static constexpr int kRequests = 32 * wire::kMaxGroup;

  static Result<std::unique_ptr<SendComm>> create(const Device& device,
                                                  std::shared_ptr<const TransportOptions> options,
                                                  Watcher* watcher);

  wire::EndPoint end_point(const wire::Secret& secret) const;
  // Takes the receiver's kReply; afterwards clear-to-send may be written here.
  Status connect(const wire::EndPoint& receiver);

  ~SendComm();

  // The connection, and how messages go over it, for the log.
  std::string text() const;

  // False when the connection has failed. A null *request means: nothing done, call again.
  // bytes must not exceed what the receiver posted for the tag.
  bool isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
             Request** request);
  // Reads completions. False when the connection has failed.
  bool progress();
  void release(Request* request) { requests_.give_back(request); }

 private:
  static constexpr int kStagedSends = 32;
  // Work requests for shares beyond the first of each message.
  static constexpr int kExtraChunks = 64;

  // A message that goes in shares: those of one size, and a last one that may be less, in order
  // over one QP; from host memory where it is staged.
  struct ChunkedSend {
    Request* request;
    const std::byte* source;  // what the HCA reads
    uint32_t lkey;
    uint32_t slot;
    uint32_t generation;
    bool may_inline;
    uint32_t chunk_bytes;
    uint32_t count;
    uint32_t posted;
    const QueuePair* pair;
    CopyStream* stream;     // null: nothing is copied
    uint64_t first_ticket;  // of the first share's copy; the others' follow
  };

  SendComm(std::shared_ptr<const TransportOptions> options, Watcher* watcher);
  [[gnu::always_inline]] Request* take_request(size_t bytes);  // null when all are in use
  [[gnu::always_inline]] const QueuePair* next_queue_pair();
  [[gnu::always_inline]] std::optional<uint64_t> match(int tag);
  const wire::ClearToSend& slot(uint64_t buffer) const {
    return tables_->ring[wire::slot_of(buffer)];
  }
  bool has_arrived(uint64_t buffer) const;
  [[gnu::always_inline]] bool post(Request* request, const void* data, uint64_t buffer,
                                   const MemoryHandle& memory);
  // Kept out of the direct path, which they would burden with what they save and restore.
  [[gnu::cold]] bool send_chunked(size_t bytes, const void* data, uint64_t buffer,
                                  const MemoryHandle& memory, Request** request);
  [[gnu::cold]] bool launch_copies(const void* data, const MemoryHandle& memory,
                                   ChunkedSend* chunks);
  [[gnu::cold]] bool post_copied_chunks();
  [[gnu::cold]] bool post_chunk(ChunkedSend* chunks);
  [[gnu::always_inline]] void advance(uint64_t buffer);
  void fail_oversized(size_t bytes, const wire::ClearToSend& slot);

  RegisteredBlock<wire::Tables> tables_;  // of rail 0 in this version
  uint64_t sequence_base_ = 0;
  uint64_t head_ = 0;    // first buffer of the group that is being served
  uint32_t served_ = 0;  // bit per buffer of the group that has been sent
  int served_count_ = 0;
  std::vector<const QueuePair*> queue_pairs_;
  size_t next_qp_ = 0;
  int max_chunks_ = 1;
  // Larger messages end in a write of their own, which carries their size.
  size_t separate_end_above_ = std::numeric_limits<size_t>::max();
  RequestPool<kRequests> requests_;
  int extra_chunks_ = 0;  // of kMoreShares, in use
  // Those whose copies are under way, oldest first; indices count up.
  std::array<ChunkedSend, kStagedSends> staged_;
  uint32_t staged_begin_ = 0;
  uint32_t staged_end_ = 0;
  uint64_t staged_bytes_ = 0;  // so far
};

}  // namespace gdr::transport
