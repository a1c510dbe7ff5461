// Which ports of peers could not be reached from which port of this process shortly before.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// On RoCE the kernel resolves the peer's address while a QP is moved to RTR, and blocks the calling
// thread for about a second where nobody answers. A job makes hundreds of connections between the
// same subnets, so that what one has found out spares the others the attempt: those of standby
// pairs, and of pairs that were lost. Thread-safe.
class UnreachablePaths {
 public:
  // How long a path counts as unreachable after an attempt.
  static constexpr std::chrono::seconds kHold{30};
  // For attempts that are urgent, as a connection has no usable pair. That is about as long as an
  // attempt blocks, so that those over other paths get half of the thread's time.
  static constexpr std::chrono::seconds kUrgentHold{1};
  // So many peers of one subnet (an IPv4 /24, or an IPv6 /64) that do not answer stand for all of
  // it: one may only have a broken port.
  static constexpr size_t kPeersForSubnet = 2;

  // Whether an attempt from the local port to the peer's is bound to fail. urgent: the peer itself
  // was tried a moment ago.
  bool contains(const wire::RailAddress& local, const wire::RailAddress& remote,
                Clock::time_point now, bool urgent = false);
  // The address of the peer's port could not be resolved from the local port.
  void add(const wire::RailAddress& local, const wire::RailAddress& remote, Clock::time_point now);
  // The peer's port was reached, in the handshake or later: those of its subnet that did not answer
  // before stand for themselves alone.
  void remove(const wire::RailAddress& local, const wire::RailAddress& remote);

 private:
  struct Peer {
    wire::Gid gid;
    Clock::time_point since;
    bool counts = true;  // for its subnet
  };

  std::mutex mutex_;                                      // guards unreachable_
  std::map<std::string, std::vector<Peer>> unreachable_;  // by local port
};

}  // namespace gdr::transport
