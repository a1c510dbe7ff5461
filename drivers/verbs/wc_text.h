// Names and likely causes of work-completion statuses (ibv_wc_status), of asynchronous events and
// of failed calls, for error texts.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/result.h"

namespace gdr::verbs {

// Returns verbs.h's name of the status without the IBV_WC_ prefix, e.g. "RETRY_EXC_ERR".
const char* wc_status_name(ibv_wc_status status);

// Returns what usually causes the status and what to check, in one or two sentences without a
// full stop at their end; "" for a success. at_receiver: of the end that receives data, which sends
// clear-to-send, reads for flushes, and has the completions of receives.
const char* wc_status_hint(ibv_wc_status status, bool at_receiver = false);
// The same of a fatal event.
const char* event_hint(ibv_event_type type);

// Makes the error of a call that locks memory: a registration, or the creation of a CQ or QP, whose
// buffers the kernel counts as well (ib_umem_get). ENOMEM gets a fix.
tl::unexpected<Error> fail_locking(std::string text, int err);

}  // namespace gdr::verbs
