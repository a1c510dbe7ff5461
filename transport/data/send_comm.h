// The sending end of a connection. Its data path belongs to one thread.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/data/connection.h"
#include "transport/data/connection_set_up.h"
#include "transport/data/message_cutter.h"
#include "transport/data/request.h"
#include "transport/data/spread_sends.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/registered_block.h"
#include "transport/pairs/rail_set.h"

namespace gdr::transport {

// Sends are driven by the receiver: it writes a clear-to-send slot for each buffer that it has
// posted into this end's ring (wire::Tables), in its order of posting. A send finds the slot with
// its tag in the group at the head of the ring, and writes the data to the address which the slot
// names.
class SendComm : public Comm {
 public:
  static constexpr int kRequests = kSendRequests;  // in flight, at most

  // Creates this end, not yet connected. peer: of the receiver's handle.
  static Result<std::unique_ptr<SendComm>> create(const EndRails& rails,
                                                  std::shared_ptr<const ConnectionOptions> options,
                                                  Watcher* watcher, ListenerRails peer);
  // Closes the connection before anything that the peer may write to is deregistered.
  ~SendComm() { connection_.close(); }

  // Moves the QPs to INIT. Returns whether they are there; false: call again.
  Result<bool> prepare();
  // Returns the body of kHello. Once prepare() has returned true.
  wire::EndPoint end_point(const wire::Secret& secret) const {
    return connection_.end().point(secret, tables_);
  }
  // Takes the receiver's kReply and connects the QPs. Returns whether they are connected, so that
  // clear-to-send may be written here; false: call connect_step() until it returns true.
  Result<bool> connect(const wire::EndPoint& receiver);
  Result<bool> connect_step() { return set_up_->change_states(); }
  // ConnectionSetUp::give_up_standby(), before keep_link().
  bool give_up_standby(const HcaContext* hca) { return set_up_->give_up_standby(hca, ENOMEM); }
  // Connection::keep_link.
  void keep_link(FrameChannel channel, bool direct = false);

  // The connection and how messages are spread over its QPs, for the log.
  std::string text() const;

  // Sends `bytes` at `data`, which `memory` registers. Returns false when the connection has
  // failed. A null *request with true: the clear-to-send has not arrived, or too many requests are
  // in flight; nothing was done, and the caller tries again later. More bytes than the receiver
  // posted for the tag fail the connection at both ends.
  [[gnu::noinline]] bool isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                               Request** request);
  // isend() that reports each chunk to the observer unless `parent` is null: from here to its
  // completion. Only where is_observed().
  [[gnu::cold]] bool isend_observed(const void* data, size_t bytes, int tag,
                                    const MemoryHandle& memory, void* parent, Request** request);
  // Reads completions and posts what has waited long enough for the rest of its group. Returns
  // false when the connection has failed.
  bool progress() { return spread_->progress(); }
  // Takes back a request that is complete.
  void release(Request* request) { requests_.give_back(request); }

 private:
  SendComm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher);
  const wire::ClearToSend& slot(uint64_t buffer) const {
    return tables_->ring[wire::slot_of(buffer)];
  }
  bool has_arrived(const wire::ClearToSend& slot, uint64_t buffer) const {
    return load_hca_written(slot.sequence) == sequence_base_ + buffer;
  }
  std::optional<uint64_t> match(const wire::ClearToSend& first, int tag);
  void advance(uint64_t buffer);
  [[gnu::noinline]] bool isend_further(const void* data, size_t bytes, int tag,
                                       const MemoryHandle& memory, Request** request);
  bool send(Send send, int tag, Request** request);

  std::unique_ptr<ConnectionSetUp> set_up_ =
      std::make_unique<ConnectionSetUp>(connection_.end());  // up to keep_link()
  RailTables tables_;
  bool prepared_ = false;
  const uint64_t sequence_base_;  // ConnectionEnd's
  uint64_t head_ = 0;             // first buffer of the group that is being served
  uint32_t served_ = 0;           // bit per buffer of the group: has been sent
  MessageCutter cutter_;          // without what the pairs say
  SendRequests requests_{this, RequestKind::kSend};
  std::optional<SpreadSends> spread_;  // once keep_link() has been called
};

}  // namespace gdr::transport
