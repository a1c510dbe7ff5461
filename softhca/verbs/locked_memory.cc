#include "softhca/verbs/locked_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softhca/fabric/shared_layout.h"
#include "softhca/model/config.h"

namespace softhca {

namespace {

// Linux asks for the capability in the first user namespace. One of another namespace counts here,
// too.
bool may_lock_all() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective & 1u << CAP_IPC_LOCK) != 0;
}

}  // namespace

void Unlock::operator()(LockedMemory* memory) const { memory->bytes_.fetch_sub(bytes); }

MemoryLock LockedMemory::lock(uint64_t address, uint64_t bytes) {
  const uint64_t locked = align_up(address + bytes, kPage) - address / kPage * kPage;
  const bool exceeds = exceeds_limit(bytes_.fetch_add(locked) + locked);
  MemoryLock lock(this, {locked});
  if (exceeds) lock.reset();
  return lock;
}

bool LockedMemory::exceeds_limit(uint64_t bytes) const {
  if (limit_ != kLimitOfProcess) return bytes > limit_;
  rlimit limit = {};
  return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && bytes > limit.rlim_cur && !may_lock_all();
}

}  // namespace softhca
