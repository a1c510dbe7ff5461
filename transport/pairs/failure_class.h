// What a failed work request means for its connection: that the pair on which it was posted is
// lost, and the connection goes on over others, or that the connection fails. (A pair:
// docs/glossary.md.)
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace gdr::transport {

enum class FailureClass : uint8_t {
  // The pair is lost, and another one may carry what is missing: the path between the two HCAs, or
  // one of these, has failed.
  kPairLost,
  // As kPairLost, and the cause is in another completion, in an asynchronous event, or at the other
  // end: the QP was in ERROR already.
  kConsequence,
  // The work request itself was wrong at one of the ends: a key, a length, a protection domain. The
  // same request would fail over every pair, and to try might hide a defect or damage data.
  kConnectionLost,
};

// Classifies the status of a completion that is not a success. A status that this version does not
// know ends the connection.
FailureClass classify_failure(ibv_wc_status status);

}  // namespace gdr::transport
