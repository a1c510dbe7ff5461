// What one end of a connection is: its rails, and what is known of the peer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "transport/pairs/connection_options.h"
#include "transport/pairs/rail_set.h"
#include "transport/watch/watcher.h"

namespace gdr::transport {

// Filled by ConnectionSetUp, and the same from then on but for the rails' QPs.
struct ConnectionEnd {
  ConnectionEnd(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher, bool sends);

  // Whether pairs are recovered: both ends do. Once the peer is known.
  bool recovers() const { return offers_recovery && peer.recovers != 0; }
  // Whether the rail carries nothing while others are usable.
  bool stands_by(uint32_t rail) const;
  // The two ports of a pair: this end's, and the peer's.
  std::pair<const wire::RailAddress&, const wire::RailAddress&> ports_of(uint32_t pair) const;
  // Returns what this end sends in kHello or kReply.
  wire::EndPoint point(const wire::Secret& secret, const RailTables& tables) const;
  // "hostA mlx5_0:1 lid 1 qp 0x11 <-> hostB mlx5_3:1 lid 2 qp 0x12". Each rail is named with its
  // first QP; "mlx5_1:1 lid 3 qp 0x13 (standby)".
  std::string text() const;
  // What is done to the QP of a pair before it goes to RTR. again: after the handshake.
  std::function<Status()> ece_setter(size_t pair, bool again) const;
  // Warns that connections go without a rail. doing: what failed, "creating" or "registering".
  void warn_of_rail(const Device& device, bool standby, const Error& why,
                    const std::string& doing = "creating") const;

  std::shared_ptr<const ConnectionOptions> options;
  Watcher* watcher;
  bool sends;                           // this is the sending end
  bool offers_recovery = false;         // this end recovers pairs
  bool peer_declines_recovery = false;  // which this end could have used
  int lacks = 0;                        // errno value with which a rail could not be made at last
  uint32_t first_psn;
  ServiceClass service;    // of what this end writes
  uint64_t sequence_base;  // which the sender chooses: wire::EndPoint's
  RoomRequests rooms;
  wire::EndPoint peer{};
  RailSet rails;
};

// Read once: each connection names it several times.
const std::string& host_name();

}  // namespace gdr::transport
