// The receiving end of a connection. Its data path belongs to one thread.
#pragma once

#include <cerrno>
#include <memory>

#include "transport/data/clear_to_send_writer.h"
#include "transport/data/connection.h"
#include "transport/data/connection_set_up.h"
#include "transport/data/flush.h"
#include "transport/data/receive_slots.h"
#include "transport/data/request.h"
#include "transport/data/spread_receives.h"
#include "transport/memory/memory_handle.h"
#include "transport/pairs/rail_set.h"

namespace gdr::transport {

// Receives are announced to the sender, which writes the data straight into their buffers and ends
// each chunk with a completion here. Nothing arrives that was not asked for, and nothing is copied.
class ReceiveComm : public Comm {
 public:
  static constexpr int kReceives = 32;  // grouped receives in flight

  // Creates this end, for the pairs of the sender's kHello.
  static Result<std::unique_ptr<ReceiveComm>> create(
      const EndRails& rails, std::shared_ptr<const ConnectionOptions> options, Watcher* watcher,
      const wire::EndPoint& sender);
  // Closes the connection before anything that the peer may write to is deregistered.
  ~ReceiveComm() { connection_.close(); }

  // Returns the body of kReply.
  wire::EndPoint end_point(const wire::Secret& secret) const {
    return connection_.end().point(secret, slots_.tables());
  }
  // Takes the sender's kHello and connects the QPs. Returns whether that is done; false: call
  // connect_step() until it returns true.
  Result<bool> connect(const wire::EndPoint& sender);
  Result<bool> connect_step();
  // ConnectionSetUp::give_up_standby(), before keep_link().
  bool give_up_standby(const HcaContext* hca) { return set_up_->give_up_standby(hca, ENOMEM); }
  // Posts the receives of all QPs, and Connection::keep_link(). The data path begins.
  void keep_link(FrameChannel channel, bool direct = false);

  // Posts a grouped receive. Returns false when the connection has failed. A null *request with
  // true: too many receives are in flight; nothing was done, and the caller tries again later.
  bool irecv(const ReceiveArrays& buffers, Request** request);
  // irecv() that reports each buffer whose parent is not null to the observer: from here until the
  // last chunk for it has arrived. `parents` may be null as a whole. Only where is_observed().
  [[gnu::cold]] bool irecv_observed(const ReceiveArrays& buffers, void* const* parents,
                                    Request** request);
  // Starts a flush, whose completion means that all data received so far is visible to the GPU.
  // Returns false when the connection has failed. A null *request with true: nothing to wait for.
  // buffers: their bytes are those that were received; the tags do not matter.
  bool iflush(const ReceiveArrays& buffers, Request** request);
  // Reads completions. Returns false when the connection has failed.
  bool progress() { return spread_->progress(); }
  // Takes back a request that is complete.
  void release(Request* request) {
    if (request->kind == RequestKind::kFlush) {
      flushes_.give_back(request);
    } else {
      receives_.give_back(request);
    }
  }

 private:
  ReceiveComm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher);
  Status create_flushes();
  Status post_all_receives();
  [[gnu::cold]] bool wait_for_room();

  // Behind what Connection::poll() reads: what the test of a receive reads beside that.
  RequestPool<kReceives> receives_{this, RequestKind::kReceive};
  ReceiveSlots slots_{connection_};
  Flushes flushes_{*this};
  int receives_each_ = 0;  // posted on each QP
  std::unique_ptr<ConnectionSetUp> set_up_ =
      std::make_unique<ConnectionSetUp>(connection_.end());  // up to keep_link()
  std::unique_ptr<SpreadReceives> spread_;                   // from then on
};

}  // namespace gdr::transport
