#include "softhca/verbs/mr.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "softhca/gpu/copier.h"
#include "softhca/gpu/process_gpu_memory.h"
#include "softhca/model/clock.h"
#include "softhca/model/faults.h"
#include "softhca/verbs/context.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace softhca {

namespace {

struct Mr {
  ibv_mr verbs;
  uint64_t gpu_bytes;                 // counted against the BAR1 limit
  std::unique_ptr<GpuWindow> window;  // of GPU memory; closed when no transfer uses it any more
};

constexpr uint64_t kDeregisterPatienceNs = 2'000'000'000;

// copy_from_user tells for memory that cannot be pinned page by page (device mappings).
bool readable(const uint8_t* address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  bool ok = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return ok;
}

// Brings the pages in, as pinning does. 0, EFAULT or ENOMEM.
int pin_host_range(void* address, size_t length, bool writable) {
  if (length == 0) return 0;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = reinterpret_cast<uintptr_t>(address) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(address) + length;
  if (end < begin) return EFAULT;
  auto populate = [&](int advice) {
    return madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0;
  };
  if (populate(writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)) return 0;
  if (errno == ENOMEM || errno == EFAULT) return EFAULT;
  // Refused as a whole: read-only, no access, a device mapping, or an old kernel.
  if (writable && populate(MADV_POPULATE_READ)) return EFAULT;
  const auto* bytes = static_cast<const uint8_t*>(address);
  return readable(bytes) && readable(bytes + length - 1) ? 0 : EFAULT;
}

struct Region {
  uint64_t address = 0;  // as the application knows it
  uint64_t length = 0;
  uint64_t iova = 0;
  unsigned access = 0;
  int32_t gpu = -1;
};

bool access_valid(unsigned access) {
  const unsigned remote_change = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & remote_change) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return false;
  return (access & (IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)) == 0;
}

// As long as the configuration says that pinning takes.
void take_time(ibv_pd* pd, size_t bytes) {
  const DeviceConfig& device = *Context::of(pd->context).device->config;
  constexpr double kMib = 1 << 20;
  double us =
      device.registration_us + device.registration_us_per_mib * static_cast<double>(bytes) / kMib;
  if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
}

ibv_mr* enter(ibv_pd* pd, const Region& region, std::unique_ptr<GpuWindow> window = nullptr) {
  take_time(pd, region.length);
  Process& process = *Context::of(pd->context).process;
  int index = process.mr_indices.take();
  SharedMr* shared = index < 0 ? nullptr : &process.arena().mr(static_cast<uint32_t>(index));
  if (shared == nullptr || !process.arena().reserve(shared, sizeof *shared)) {
    if (index >= 0) process.mr_indices.give(static_cast<uint32_t>(index));
    errno = ENOMEM;
    return nullptr;
  }
  shared->pd = pd->handle;
  shared->access = region.access;
  shared->iova = region.iova;
  shared->length = region.length;
  shared->address =
      window == nullptr ? region.address : reinterpret_cast<uint64_t>(window->address());
  shared->gpu = region.gpu;
  uint32_t key = key_of(process.slot(), static_cast<uint32_t>(index),
                        process.registrations.fetch_add(1) * 7 + 1);
  // A first key of index 0 in a slot divisible by 256 could be 0, which means "none".
  if (key == 0) key = key_of(process.slot(), static_cast<uint32_t>(index), 0x55);
  shared->key.store(key);
  Mr* mr = new Mr{};
  mr->verbs.context = pd->context;
  mr->verbs.pd = pd;
  mr->verbs.addr = reinterpret_cast<void*>(region.address);
  mr->verbs.length = region.length;
  mr->verbs.handle = static_cast<uint32_t>(index);
  mr->verbs.lkey = mr->verbs.rkey = key;
  mr->gpu_bytes = region.gpu >= 0 ? region.length : 0;
  mr->window = std::move(window);
  Pd::of(pd).objects.fetch_add(1);
  return &mr->verbs;
}

// A region of CUDA memory: sets errno and returns null as a driver without room in BAR1 does.
ibv_mr* enter_gpu(ibv_pd* pd, Region region) {
  Process& process = *Context::of(pd->context).process;
  int error = process.gpu().attach(region.gpu, region.length);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  std::unique_ptr<GpuWindow> window =
      process.gpu().open_window(region.gpu, reinterpret_cast<void*>(region.address), region.length);
  if (window == nullptr) errno = EIO;
  ibv_mr* mr = window == nullptr ? nullptr : enter(pd, region, std::move(window));
  if (mr == nullptr) process.gpu().detach(region.length);
  return mr;
}

int refusal(ibv_pd* pd, unsigned access) {
  Context& context = Context::of(pd->context);
  if (context.process->orphaned()) return EIO;
  if (!access_valid(access)) return EINVAL;
  return context.process->faults().registration_error(context.device->index);
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  errno = refusal(pd, access);
  if (errno != 0) return nullptr;
  Region region = {reinterpret_cast<uint64_t>(address), length, iova, access, -1};
  GpuMemory& gpu = Context::of(pd->context).process->gpu();
  region.gpu = gpu.device_of(address, length);
  if (region.gpu >= 0) {
    const GpuConfig& config = Context::of(pd->context).process->config().gpu;
    if (config.peermem != PeermemModule::kNone) return enter_gpu(pd, region);
    errno = EFAULT;
    return nullptr;
  }
  errno = pin_host_range(address, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  return errno == 0 ? enter(pd, region) : nullptr;
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      unsigned access) {
  Process& process = *Context::of(pd->context).process;
  if (!process.config().gpu.dmabuf) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (fcntl(fd, F_GETFD) < 0) {
    errno = EBADF;
    return nullptr;
  }
  errno = refusal(pd, access);
  if (errno != 0) return nullptr;
  // The descriptor cannot be mapped; the iova of CUDA memory is its address in this process.
  // `offset` counts from the start of the dma-buf, which iova already allows for.
  static_cast<void>(offset);
  Region region = {iova, length, iova, access, -1};
  region.gpu = process.gpu().device_of(reinterpret_cast<void*>(iova), length);
  if (region.gpu < 0) {
    errno = EINVAL;
    return nullptr;
  }
  return enter_gpu(pd, region);
}

int dereg_mr(ibv_mr* handle) {
  Mr* mr = reinterpret_cast<Mr*>(handle);
  Process& process = *Context::of(handle->context).process;
  if (process.orphaned()) return 0;
  SharedMr& shared = process.arena().mr(handle->handle);
  shared.key.store(0);
  // Users are transfers under way; one that was killed in between is not waited for for ever.
  uint64_t until = now_ns() + kDeregisterPatienceNs;
  while (shared.users.load() != 0 && now_ns() < until) std::this_thread::yield();
  shared.users.store(0);
  if (mr->gpu_bytes != 0) process.gpu().detach(mr->gpu_bytes);
  process.mr_indices.give(handle->handle);
  Pd::of(handle->pd).objects.fetch_sub(1);
  delete mr;
  return 0;
}

}  // namespace softhca
