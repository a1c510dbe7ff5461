// Adding completions to a CQ, by its owner or by a peer that delivers to it.
#pragma once

#include <cstdint>

#include "softhca/fabric/peer.h"
#include "softhca/fabric/process.h"

namespace softhca {

// Appends a completion to a CQ of `owner` and signals its completion channel if the CQ is armed.
// When the CQ is full it is marked as overrun, its owner gets IBV_EVENT_CQ_ERR (once), and the
// result is false; the completion is lost.
bool push_completion(const Process& process, const Peer& owner, uint32_t cq_index, const Cqe& entry,
                     bool solicited);

}  // namespace softhca
