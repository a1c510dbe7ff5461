// The order of threads that ThreadSanitizer cannot see, since it sees one process only: a thread's
// copy comes before another one's poll by way of another process. The engine copies for a remote
// requester, and the requester adds the completion.
#pragma once

#include "softhca/fabric/shared_layout.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace softhca {

// To be called when a copy is done, before the process that asked for it can know.
inline void order_copy_before_polls([[maybe_unused]] ArenaHeader& own) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(&own.copy_requests);
#endif
}

// To be called when a completion has been taken from a CQ.
inline void order_poll_after_copies([[maybe_unused]] ArenaHeader& own) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&own.copy_requests);
#endif
}

}  // namespace softhca
