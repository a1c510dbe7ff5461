// What a sender and a receiver have in common: the rails, both ends' addresses, the link to the
// peer, and how a failure is reported.
#pragma once

#include <memory>
#include <string>

#include "transport/data/peer_link.h"
#include "transport/data/rail_set.h"
#include "transport/data/watcher.h"
#include "transport/memory/copy_stream.h"
#include "transport/memory/registration_agreement.h"

namespace gdr::transport {

struct RegistrationScope;

// One end of a connection: its rails, the peer's addresses and the link to the peer. A SendComm or
// a ReceiveComm owns it.
class Connection {
 public:
  Connection(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher, bool sends);
  Connection(Connection&&) = default;
  ~Connection();

  // Creates this end of a rail, with its QPs in INIT.
  Status add_rail(const Device& device, const RailSpec& spec);

  // Fills what this end sends in kHello or kReply: secret, host, rails and QPs.
  void describe(const wire::Secret& secret, wire::EndPoint* end) const;

  // Checks that the peer's end fits ours, and keeps it. The error text names both ends and the fix.
  Status accept_peer(const wire::EndPoint& peer);
  // Connects all QPs to the peer that accept_peer took.
  Status connect_queue_pairs(uint8_t traffic_class);
  // Takes over the socket of the handshake: from here on the connection fails when the peer goes
  // away, and a failure of either end is reported to the other. role is "sender" or "receiver".
  void keep_link(FrameChannel channel, const char* role);

  const ConnectionOptions& options() const { return *options_; }
  RailSet& rails() { return rails_; }
  const RailSet& rails() const { return rails_; }
  const wire::EndPoint& peer() const { return peer_; }
  PeerLink& link() { return *link_; }
  // The most bytes of one RDMA write on any rail of this end, a multiple of wire::kSplitAlignment:
  // the ports' largest message. An RC write's requester is what limits it.
  size_t max_write_bytes() const;
  // Returns what Registrar needs to register memory for this connection.
  RegistrationScope registration_scope() const;

  // "hostA mlx5_0:1 lid 1 qp 0x11 <-> hostB mlx5_3:1 lid 2 qp 0x12". Each rail is named with its
  // first QP.
  std::string text() const;

  // Reads the completions that wait on each rail and hands them to on_completion(const ibv_wc&),
  // which returns false where the connection has failed. Returns false once it has failed.
  template <class OnCompletion>
  [[gnu::always_inline]] bool poll(OnCompletion&& on_completion);

  // The first failure is kept and sent to the peer; later ones are dropped. Cold: kept out of line,
  // so that the hot path saves no registers for them.
  [[gnu::cold]] void fail(Code code, const std::string& what);
  [[gnu::cold]] void fail_completion(const ibv_wc& wc);
  // Reports the errno value with which a verbs call failed. call: "posting a send".
  [[gnu::cold]] void fail_verbs(const char* call, int err);
  bool failed() const { return link_->failed(); }
  // Returns the code of the failure, for a call of NCCL's, and logs its text at the first such
  // call.
  Code surface_failure();

 private:
  static constexpr int kPollBatch = 8;

  std::shared_ptr<const ConnectionOptions> options_;
  Watcher* watcher_;
  bool sends_;  // this is the sending end
  RailSet rails_;
  uint32_t first_psn_;
  wire::EndPoint peer_{};
  std::shared_ptr<PeerLink> link_;
  std::shared_ptr<RegistrationAgreement> agreement_;  // shared with the link
  std::unique_ptr<CopyStreams> copy_streams_ = std::make_unique<CopyStreams>();
  bool surfaced_ = false;
};

// The base of both ends, so that memory can be registered on either.
class Comm {
 public:
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

 protected:
  Comm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher, bool sends)
      : connection_(std::move(options), watcher, sends) {}
  ~Comm() = default;

  Connection connection_;
};

template <class OnCompletion>
inline bool Connection::poll(OnCompletion&& on_completion) {
  for (const RailEnd& rail : rails_) {
    ibv_wc completions[kPollBatch];
    const int n = ibv_poll_cq(rail.cq(), kPollBatch, completions);
    for (int i = 0; i < n; ++i) {
      if (completions[i].status != IBV_WC_SUCCESS) [[unlikely]] {
        fail_completion(completions[i]);
        return false;
      }
      if (!on_completion(completions[i])) [[unlikely]]
        return false;
    }
    if (n < 0) [[unlikely]]
      fail(Code::kSystem, "polling the completion queue failed");
  }
  return !failed();
}

}  // namespace gdr::transport
