#include "softhca/verbs/pinned_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "softhca/verbs/runtime.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace softhca {

namespace {

// Returns whether the kernel can read a byte: copy_from_user also works for device mappings, which
// madvise() cannot populate.
bool readable(const uint8_t* address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  bool ok = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return ok;
}

// Brings the pages in, as pinning does. Returns 0 or EFAULT.
int pin_host_range(void* address, size_t length, bool writable) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = reinterpret_cast<uintptr_t>(address) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(address) + length;
  if (end < begin) return EFAULT;
  auto populate = [&](int advice) {
    return madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0;
  };
  if (populate(writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)) return 0;
  if (errno == ENOMEM || errno == EFAULT) return EFAULT;
  // madvise() failed as a whole: the range is read-only, not accessible, or a device mapping, or
  // the kernel is older than 5.14.
  if (writable && populate(MADV_POPULATE_READ)) return EFAULT;
  const auto* bytes = static_cast<const uint8_t*>(address);
  return readable(bytes) && readable(bytes + length - 1) ? 0 : EFAULT;
}

}  // namespace

int pin_gpu(Runtime& runtime, int32_t gpu, const Region& region, PinnedMemory* pinned) {
  GpuMemory& memory = runtime.gpu();
  if (int error = memory.attach(gpu, region.length); error != 0) return error;
  pinned->share = {&memory, {region.length}};
  runtime.engine().start();
  auto* address = reinterpret_cast<void*>(region.address);
  pinned->window = memory.open_window(gpu, address, region.length);
  if (pinned->window == nullptr) return EIO;
  pinned->gpu = gpu;
  pinned->address = reinterpret_cast<uint64_t>(pinned->window->address());
  return 0;
}

int pin(Runtime& runtime, const Region& region, PinnedMemory* pinned) {
  auto* address = reinterpret_cast<void*>(region.address);
  int32_t gpu = runtime.gpu().device_of(address, region.length);
  if (gpu >= 0) {
    if (runtime.config().gpu.peermem == PeermemModule::kNone) return EFAULT;
    return pin_gpu(runtime, gpu, region, pinned);
  }
  pinned->lock = runtime.locked_memory().lock(region.address, region.length);
  if (pinned->lock == nullptr) return ENOMEM;
  pinned->address = region.address;
  return pin_host_range(address, region.length, (region.access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

}  // namespace softhca
