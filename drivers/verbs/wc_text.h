// Names and likely causes of work-completion statuses (ibv_wc_status) and of asynchronous events,
// for error texts.
#pragma once

#include <infiniband/verbs.h>

namespace gdr::verbs {

// Returns verbs.h's name of the status without the IBV_WC_ prefix, e.g. "RETRY_EXC_ERR".
const char* wc_status_name(ibv_wc_status status);

// Returns what usually causes the status and what to check, in one or two sentences without a
// full stop at their end; "" for a success. at_receiver: of the end that receives data, which sends
// clear-to-send, reads for flushes, and has the completions of receives.
const char* wc_status_hint(ibv_wc_status status, bool at_receiver = false);
// The same of a fatal event.
const char* event_hint(ibv_event_type type);

}  // namespace gdr::verbs
