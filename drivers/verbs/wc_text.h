// Names and likely causes of work-completion statuses.
#pragma once

#include <infiniband/verbs.h>

namespace gdr::verbs {

// As verbs.h spells it without the IBV_WC_ prefix, e.g. "RETRY_EXC_ERR".
const char* wc_status_name(ibv_wc_status status);

// What usually causes the status and what to look at, one sentence. Empty where nothing useful
// can be said.
const char* wc_status_hint(ibv_wc_status status);

const char* wc_opcode_name(ibv_wc_opcode opcode);

}  // namespace gdr::verbs
