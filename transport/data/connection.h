// What a sender and a receiver have in common: rails, both ends' addresses, the kept link, and how
// a failure is told.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/data/peer_link.h"
#include "transport/data/rail_end.h"
#include "transport/data/watcher.h"
#include "transport/memory/copy_stream.h"

namespace gdr::transport {

struct RegistrationScope;

class Connection {
 public:
  Connection(std::shared_ptr<const TransportOptions> options, Watcher* watcher);
  Connection(Connection&&) = default;
  ~Connection();

  Status add_rail(const Device& device, const RailSpec& plan);

  // Fills what this side says of itself in kHello or kReply.
  void describe(const wire::Secret& secret, wire::EndPoint* end) const;

  // Checks that the peer's end fits ours; the text names both ends and the mend.
  Status accept_peer(const wire::EndPoint& peer);
  // Connects all QPs to the peer that accept_peer took.
  Status connect_queue_pairs(uint8_t traffic_class);
  // From here on the peer's going away fails the connection.
  void keep_link(FrameChannel channel, const char* role);

  const TransportOptions& options() const { return *options_; }
  std::vector<RailEnd>& rails() { return rails_; }
  const wire::EndPoint& peer() const { return peer_; }
  PeerLink& link() { return *link_; }
  // What Registrar needs of this connection to register memory for it.
  RegistrationScope registration_scope() const;
  int queue_pair_count() const;
  // QP i of the connection: rail i % rails, QP i / rails of that rail.
  const QueuePair& queue_pair(int index) const;
  std::vector<const QueuePair*> queue_pairs() const;

  // "hostA mlx5_0:1 lid 1 qp 0x11 <-> hostB mlx5_3:1 lid 2 qp 0x12"
  std::string text() const;

  // The first failure stays, and the peer is told.
  void fail_completion(const ibv_wc& wc);
  void fail(Code code, const std::string& what);
  bool failed() const { return link_->failed(); }
  // For a call that has to return the failure: warns the user the first time.
  Code surface_failure();

 private:
  std::shared_ptr<const TransportOptions> options_;
  Watcher* watcher_;
  std::vector<RailEnd> rails_;
  uint32_t first_psn_;
  wire::EndPoint peer_{};
  std::shared_ptr<PeerLink> link_;
  std::unique_ptr<CopyStreams> copy_streams_ = std::make_unique<CopyStreams>();
  bool surfaced_ = false;
};

// The base of both ends, so that memory can be registered on either.
class Comm {
 public:
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

 protected:
  Comm(std::shared_ptr<const TransportOptions> options, Watcher* watcher)
      : connection_(std::move(options), watcher) {}
  ~Comm() = default;

  Connection connection_;
};

}  // namespace gdr::transport
