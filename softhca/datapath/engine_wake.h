// Waking the engine of a process, this one's or a peer's.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softhca/fabric/shared_layout.h"

namespace softhca {

inline void wake_engine(ArenaHeader& header) {
  header.engine_wake.fetch_add(1);
  if (header.engine_sleeps.load() == 0) return;
  syscall(SYS_futex, &header.engine_wake, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace softhca
