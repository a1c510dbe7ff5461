// The sending end of a connection. Its data path belongs to one thread.
#pragma once

#include <memory>

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

  // False when the connection has failed. A null *request means: nothing done, call again.
  // bytes must not exceed what the receiver posted for the tag.
  bool isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
             Request** request);
  // Reads completions. False when the connection has failed.
  bool progress();
  void release(Request* request) { requests_.give_back(request); }

 private:
  using Ring = wire::ClearToSendRing;

  SendComm(std::shared_ptr<const TransportOptions> options, Watcher* watcher);
  const wire::ClearToSend* match(int tag);
  bool post(Request* request, const void* data, const wire::ClearToSend& slot,
            const MemoryHandle& memory);
  void advance(const wire::ClearToSend& slot, int group);
  void fail_oversized(size_t bytes, const wire::ClearToSend& slot);

  RegisteredBlock<Ring> ring_;  // written by the receiver; of rail 0 in this version
  uint64_t sequence_base_ = 0;
  uint64_t head_ = 0;    // the group that is being served
  uint32_t served_ = 0;  // bit per buffer of it that has been sent
  int served_count_ = 0;
  std::vector<const QueuePair*> queue_pairs_;
  size_t next_qp_ = 0;
  int shares_at_most_ = 1;
  RequestPool<kRequests> requests_;
};

}  // namespace gdr
