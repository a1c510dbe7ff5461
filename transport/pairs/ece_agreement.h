// Enhanced connection establishment (ECE): the agreement of both HCAs on options of their vendor
// for each queue pair, such as selective repeat and congestion control of RoCE on mlx5. Without it
// they use what every HCA of the vendor knows.
//
// The order is that of NCCL's net_ib (connect.cc): the sender queries what its HCA offers, and
// sends it in kHello. The receiver sets that before its QP goes to RTR, queries after RTS what its
// HCA has accepted of it, and sends that in kReply. The sender sets it before its own QP goes to
// RTR. From then on both ends know what the reply names, and use that whenever they connect the
// queue pair again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "drivers/verbs/verbs_api.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// The agreement for the queue pairs of one connection, by their number in the handshake. Where
// an HCA or the peer knows no ECE, the QP has none, which is not a failure.
class EceAgreement {
 public:
  // Sender: queries the offer for queue pair `index`, which is in INIT.
  void query_offer(size_t index, const verbs::Api& api, ibv_qp* qp);
  // Receiver: sets the sender's offer, if there is one, on its queue pair in INIT.
  void set_offer(size_t index, const verbs::Api& api, ibv_qp* qp, const wire::QpAddress& sender);
  // Receiver: queries what has been accepted for its queue pair, which is in RTS.
  Status query_accepted(size_t index, const verbs::Api& api, ibv_qp* qp);
  // Receiver: forgets the options of a queue pair that is not connected yet, which the reply then
  // does not name.
  void forget(size_t index) { at(index).reset(); }
  // Receiver: sets what the reply has named, if anything, on its queue pair, which is connected
  // later or again and is in INIT.
  Status set_again(size_t index, const verbs::Api& api, ibv_qp* qp);
  // Sender: sets what the receiver has accepted on its queue pair in INIT.
  Status set_accepted(size_t index, const verbs::Api& api, ibv_qp* qp,
                      const wire::QpAddress& receiver);

  // Fills the ECE data of what this end sends in kHello or kReply.
  void describe(wire::EndPoint* end) const;
  // ", ECE vendor 0x15b3 options 0x30 on 4 QP(s)", or "" where there is none.
  std::string text() const;

 private:
  std::optional<ibv_ece>& at(size_t index);

  std::vector<std::optional<ibv_ece>> by_pair_;
};

}  // namespace gdr::transport
