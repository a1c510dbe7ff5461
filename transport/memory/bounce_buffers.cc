#include "transport/memory/bounce_buffers.h"

#include <string>

#include "drivers/cuda/cuda_driver.h"

namespace gdr::transport {

// Takes the smallest unused memory that is large enough, unless half of it would be wasted.
BounceBufferPool::Memory BounceBufferPool::Pool::take_unused(size_t bytes) {
  auto found = unused.lower_bound(bytes);
  if (found == unused.end() || found->first / 2 > bytes) return nullptr;
  Memory memory = std::move(found->second);
  unused.erase(found);
  return memory;
}

void BounceBufferPool::Pool::give_back(Memory memory) {
  std::multimap<size_t, Memory> released;  // unlocked after the mutex, since that may take long
  std::lock_guard lock(mutex);
  size_t bytes = memory->bytes();
  unused.emplace(bytes, std::move(memory));
  // The deleter of a bounce buffer references the pool, and an expired weak pointer would keep the
  // deleter, and so the pool, alive.
  std::erase_if(bounce_buffers, [](const auto& entry) { return entry.second.expired(); });
  if (--in_use > 0) return;
  for (const auto& [size, idle] : unused) locked_bytes -= size;
  released.swap(unused);
}

Result<BounceBufferPool::Memory> BounceBufferPool::allocate(int device, size_t bytes,
                                                            Locking locking) {
  if (Memory memory = pool_->take_unused(bytes)) return memory;
  if (locking == Locking::kForbidden) {
    return fail(Code::kDeclined,
                "no page-locked memory is unused, and locking some while collectives run could "
                "deadlock them");
  }
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver) return tl::unexpected(driver.error());
  if (bytes > limit_ || pool_->locked_bytes > limit_ - bytes) {
    return fail(Code::kSystem, "staging " + std::to_string(bytes) + " bytes would take more than " +
                                   std::to_string(limit_ >> 20) +
                                   " MiB of page-locked host memory in this process "
                                   "(GDR_NCCL_STAGING_MIB)");
  }
  Result<Memory> memory = PinnedMemory::create(*driver, device, bytes);
  if (memory) pool_->locked_bytes += (*memory)->bytes();
  return memory;
}

Result<std::shared_ptr<const BounceBuffer>> BounceBufferPool::get(int device, uintptr_t address,
                                                                  size_t bytes, Locking locking) {
  std::shared_ptr<const BounceBuffer> others;  // released after the mutex
  std::lock_guard lock(pool_->mutex);
  auto known = pool_->bounce_buffers.find({address, bytes});
  if (known != pool_->bounce_buffers.end()) {
    others = known->second.lock();
    if (others != nullptr && others->device == device) return others;
  }
  Result<Memory> memory = allocate(device, bytes, locking);
  if (!memory) return forward_error(memory);
  ++pool_->in_use;
  auto give_back = [pool = pool_](BounceBuffer* unused) {
    pool->give_back(std::move(unused->memory));
    delete unused;
  };
  std::shared_ptr<const BounceBuffer> made(new BounceBuffer{address, device, std::move(*memory)},
                                           give_back);
  pool_->bounce_buffers[{address, bytes}] = made;
  return made;
}

}  // namespace gdr::transport
