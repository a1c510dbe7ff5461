// Names and likely causes of work-completion statuses (ibv_wc_status) and of failed calls, for error
// texts.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "base/result.h"

namespace gdr::verbs {

// Returns verbs.h's name of the status without the IBV_WC_ prefix, e.g. "RETRY_EXC_ERR".
const char* wc_status_name(ibv_wc_status status);

// Returns what usually causes the status and what to check, in one or two sentences without a
// full stop at their end; "" for a success and for statuses without a useful hint.
const char* wc_status_hint(ibv_wc_status status);

// Makes the error of a call that locks memory: a registration, or the creation of a CQ or QP, whose
// buffers the kernel counts as well (ib_umem_get). ENOMEM gets a fix.
tl::unexpected<Error> fail_locking(std::string text, int err);

}  // namespace gdr::verbs
