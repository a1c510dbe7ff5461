// The chunks that did not arrive over pairs that were lost, until they go over others.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/data/connection.h"
#include "transport/data/message_cutter.h"
#include "transport/data/outgoing_message.h"
#include "transport/data/spread_pairs.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {

// Exactly once: a pair that fails is not used before both ends have moved its QP to ERROR and the
// receiver has stated how many chunks arrived over it (PairNews::kAgreed). Those are complete, and
// only the others are posted again. docs/wire-protocol.md has the rules.
class LostChunks {
 public:
  // Both outlive it.
  LostChunks(Connection& connection, SendRequests& requests)
      : connection_(connection),
        requests_(requests),
        failing_since_(connection.recovery()->recovers() ? kSendRequests : 0) {}

  bool empty() const { return waiting_.empty(); }
  // Whether the peer may have received what it states. Fails the connection otherwise.
  bool check_arrived(const SentChunks& sent, uint64_t arrived);
  // Takes over what is left on a pair of which the arrived chunks are complete, over `paths` paths.
  // The pair was lost with the first of them, unless something else has failed. Finishes its
  // recovery, unless the connection fails as a chunk is lost again and again.
  void take_over(SpreadPair& pair, size_t paths);
  // Calls send(chunk) for each, which returns false where the chunk has to wait.
  template <class SendAgain>
  void send_again(SendAgain send) {
    std::erase_if(waiting_,
                  [&](const SentChunk& chunk) { return !connection_.failed() && send(chunk); });
  }
  // They wait for nothing any more.
  std::vector<SentChunk> take_all() { return std::exchange(waiting_, {}); }
  // Whether the slot is still that of the message, and large enough. The receiver keeps a late
  // write of an older announcement from replacing it (AnnouncementRules); a peer that does not
  // would have the data written into another buffer, so that the connection fails.
  bool still_fits(const wire::ClearToSend& slot, uint64_t sequence, const SentChunk& chunk);

 private:
  FailedWork count_failure(SentChunk& chunk);

  Connection& connection_;
  SendRequests& requests_;
  std::vector<RailLoad::Time> failing_since_;  // by request: of the first failure of a chunk of it
  std::vector<SentChunk> waiting_;
};

}  // namespace gdr::transport
