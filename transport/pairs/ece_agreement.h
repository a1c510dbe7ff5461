// Enhanced connection establishment (ECE): the agreement of both HCAs on options of their vendor
// for each queue pair, such as selective repeat and congestion control of RoCE on mlx5. Without it
// they use what every HCA of the vendor knows. Where an HCA or the peer knows no ECE,
// QueuePair::ece stays unset, which is not a failure.
//
// The order is that of NCCL's net_ib (connect.cc): the sender queries what its HCA offers, and
// sends it in kHello. The receiver sets that before its QP goes to RTR, queries after RTS what its
// HCA has accepted of it, and sends that in kReply. The sender sets it before its own QP goes to
// RTR. From then on both ends know what the reply names, and use that whenever they connect the
// queue pair again.
#pragma once

#include <string>

#include "base/result.h"
#include "drivers/verbs/verbs_api.h"
#include "transport/pairs/rail_set.h"

namespace gdr::transport {

// Sender: queries the offer for a queue pair, which is in INIT.
void query_offered_ece(const verbs::Api& api, QueuePair* pair);
// Receiver: sets the sender's offer, if there is one, on its queue pair in INIT.
void set_offered_ece(const verbs::Api& api, const wire::QpAddress& sender, QueuePair* pair);
// Receiver: queries what has been accepted for its queue pair, which is in RTS.
Status query_accepted_ece(const verbs::Api& api, QueuePair* pair);
// Sender: takes over what the reply names.
void take_accepted_ece(const wire::QpAddress& receiver, QueuePair* pair);
// Sets what the reply names, if anything, on a queue pair in INIT: the sender's, or the receiver's
// that is connected later or again.
Status set_agreed_ece(const verbs::Api& api, QueuePair* pair);

// Of the first pair with ECE: ", ECE vendor 0x15b3 options 0x30"; "" where all are without.
std::string ece_text(const RailSet& rails);

}  // namespace gdr::transport
