// The sending end of a connection. Its data path belongs to one thread.
#pragma once

#include <limits>
#include <memory>
#include <optional>

#include "transport/connection.h"
#include "transport/memory.h"
#include "transport/request.h"

namespace gdr {

class SendComm : public Comm {
 public:
  static constexpr int kRequests = 32 * wire::kMaxGroup;

  static Result<std::unique_ptr<SendComm>> create(const Device& device,
                                                  std::shared_ptr<const TransportOptions> options,
                                                  Watcher* watcher);

  wire::EndPoint end_point(const wire::Secret& secret) const;
  // Takes the receiver's kReply; afterwards clear-to-send may be written here.
  Status connect(const wire::EndPoint& receiver);

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
  SendComm(std::shared_ptr<const TransportOptions> options, Watcher* watcher);
  std::optional<uint64_t> match(int tag);
  const wire::ClearToSend& slot(uint64_t buffer) const {
    return tables_->ring[wire::slot_of(buffer)];
  }
  bool has_arrived(uint64_t buffer) const;
  bool post(Request* request, const void* data, uint64_t buffer, const MemoryHandle& memory);
  void advance(uint64_t buffer);
  void fail_oversized(size_t bytes, const wire::ClearToSend& slot);

  RegisteredBlock<wire::Tables> tables_;  // of rail 0 in this version
  uint64_t sequence_base_ = 0;
  uint64_t head_ = 0;    // first buffer of the group that is being served
  uint32_t served_ = 0;  // bit per buffer of the group that has been sent
  int served_count_ = 0;
  std::vector<const QueuePair*> queue_pairs_;
  size_t next_qp_ = 0;
  int shares_at_most_ = 1;
  // Larger messages end in a write of their own, which carries their size.
  size_t separate_end_above_ = std::numeric_limits<size_t>::max();
  RequestPool<kRequests> requests_;
};

}  // namespace gdr
