// Sends whose bytes go through a bounce buffer: copied there by the GPU, chunk by chunk and in
// order, and handed back to SendComm to be written as the copies complete.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "transport/data/connection.h"
#include "transport/data/outgoing_message.h"
#include "transport/memory/memory_handle.h"

namespace gdr::transport {

// One staged message. All of its chunks go over one QP, which keeps their order: the receiver
// counts them to know which bytes have arrived.
struct StagedSend {
  OutgoingMessage message;
  const QueuePair* pair;
  MemoryHandle::Keys keys;  // of the bounce buffer
  CopyStream* stream;
  uint32_t posted;        // chunks
  uint64_t first_ticket;  // of the first chunk's copy; those of the others follow
};

// The direct path calls only empty(); what staged messages call is cold.
class StagedSends {
 public:
  explicit StagedSends(Connection& connection) : connection_(connection) {}
  // Logs how much was sent this way, if anything.
  ~StagedSends();
  StagedSends(const StagedSends&) = delete;
  StagedSends& operator=(const StagedSends&) = delete;

  // Whether no message waits for copies.
  bool empty() const { return begin_ == end_; }
  bool full() const { return end_ - begin_ == kMaxStaged; }

  // Launches the copies of a message from GPU memory at `data` into its bounce buffer, one per
  // chunk, and adds it, to be written over `pair`, behind those that wait. The bounce buffer is the
  // source that `message` has. Returns false where a launch failed, which fails the connection.
  [[gnu::cold]] bool start(const OutgoingMessage& message, const QueuePair& pair, const void* data,
                           const MemoryHandle& memory);

  // Sets *ready to the oldest message, if its next chunk is in the bounce buffer; to null where
  // there is none. Returns false where a copy failed, which fails the connection.
  [[gnu::cold]] bool next_copied(StagedSend** ready);
  // Notes that the chunk which next_copied() returned has been posted.
  [[gnu::cold]] void mark_posted();

 private:
  static constexpr uint32_t kMaxStaged = 32;

  Connection& connection_;
  // Messages whose chunks are not all posted, oldest first; the indices count up.
  // Made by the first start(), as most connections stage nothing.
  std::unique_ptr<std::array<StagedSend, kMaxStaged>> sends_;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  uint64_t bytes_ = 0;  // so far
};

}  // namespace gdr::transport
