#include "softhca/verbs/locked_memory.h"

#include "softhca/fabric/shared_layout.h"

namespace softhca {

void Unlock::operator()(LockedMemory* memory) const { memory->bytes_.fetch_sub(bytes); }

MemoryLock LockedMemory::lock(uint64_t address, uint64_t bytes) {
  const uint64_t locked = align_up(address + bytes, kPage) - address / kPage * kPage;
  const bool exceeds = bytes_.fetch_add(locked) + locked > limit_;
  MemoryLock lock(this, {locked});
  if (exceeds) lock.reset();
  return lock;
}

}  // namespace softhca
