#include "softhca/verbs/mr.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "softhca/model/clock.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/runtime.h"

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
  // madvise() failed as a whole: the range is read-only, not accessible, or a device mapping, or
  // the kernel is older than 5.14.
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

// Waits as long as the configuration says that pinning takes.
void wait_for_pinning(ibv_pd* pd, size_t bytes) {
  const DeviceConfig& device = *Context::of(pd->context).device->config;
  constexpr double kMib = 1 << 20;
  double us =
      device.registration_us + device.registration_us_per_mib * static_cast<double>(bytes) / kMib;
  if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
}

// Takes an entry of the arena's table of registrations; -1 when there is no room.
int allocate(Runtime& runtime) {
  int index = runtime.mr_indices().take();
  if (index < 0) return -1;
  const Arena& arena = runtime.process().arena();
  const SharedMr& shared = arena.mr(static_cast<uint32_t>(index));
  if (arena.reserve(&shared, sizeof shared)) return index;
  runtime.mr_indices().give(static_cast<uint32_t>(index));
  return -1;
}

// Makes a key whose generation differs from that of the index's earlier keys. 0 means "none".
uint32_t make_key(Runtime& runtime, uint32_t index) {
  uint32_t slot = runtime.process().slot();
  uint32_t key = key_of(slot, index, runtime.next_registration() * 7 + 1);
  return key != 0 ? key : key_of(slot, index, 0x55);
}

// Enters a region, whose memory is pinned, into the table. Null with errno ENOMEM when it is full.
ibv_mr* enter(ibv_pd* pd, const Region& region, std::unique_ptr<GpuWindow> window = nullptr) {
  wait_for_pinning(pd, region.length);
  Runtime& runtime = *Context::of(pd->context).runtime;
  int index = allocate(runtime);
  if (index < 0) {
    errno = ENOMEM;
    return nullptr;
  }
  SharedMr& shared = runtime.process().arena().mr(static_cast<uint32_t>(index));
  shared.pd = pd->handle;
  shared.access = region.access;
  shared.iova = region.iova;
  shared.length = region.length;
  shared.address =
      window == nullptr ? region.address : reinterpret_cast<uint64_t>(window->address());
  shared.gpu = region.gpu;
  uint32_t key = make_key(runtime, static_cast<uint32_t>(index));
  shared.key.store(key);
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

// Registers CUDA memory. Returns null with errno set: ENOMEM is what drivers give when BAR1 is
// full.
ibv_mr* enter_gpu(ibv_pd* pd, Region region) {
  Runtime& runtime = *Context::of(pd->context).runtime;
  int error = runtime.gpu().attach(region.gpu, region.length);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  runtime.engine().start();
  std::unique_ptr<GpuWindow> window =
      runtime.gpu().open_window(region.gpu, reinterpret_cast<void*>(region.address), region.length);
  if (window == nullptr) errno = EIO;
  ibv_mr* mr = window == nullptr ? nullptr : enter(pd, region, std::move(window));
  if (mr == nullptr) runtime.gpu().detach(region.length);
  return mr;
}

// Returns 0, or the errno with which every registration with this access fails now.
int check_registration(ibv_pd* pd, unsigned access) {
  Context& context = Context::of(pd->context);
  if (context.runtime->orphaned()) return EIO;
  if (!access_valid(access)) return EINVAL;
  return context.runtime->faults().registration_error(context.device->index);
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  errno = check_registration(pd, access);
  if (errno != 0) return nullptr;
  Region region = {reinterpret_cast<uint64_t>(address), length, iova, access, -1};
  Runtime& runtime = *Context::of(pd->context).runtime;
  region.gpu = runtime.gpu().device_of(address, length);
  if (region.gpu >= 0) {
    if (runtime.config().gpu.peermem != PeermemModule::kNone) return enter_gpu(pd, region);
    errno = EFAULT;
    return nullptr;
  }
  errno = pin_host_range(address, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  return errno == 0 ? enter(pd, region) : nullptr;
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      unsigned access) {
  Runtime& runtime = *Context::of(pd->context).runtime;
  if (!runtime.config().gpu.dmabuf) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (fcntl(fd, F_GETFD) < 0) {
    errno = EBADF;
    return nullptr;
  }
  errno = check_registration(pd, access);
  if (errno != 0) return nullptr;
  // The descriptor cannot be mapped: the memory is found by iova, its address in this process.
  // `offset` counts from the start of the dma-buf, which iova allows for already.
  static_cast<void>(offset);
  Region region = {iova, length, iova, access, -1};
  region.gpu = runtime.gpu().device_of(reinterpret_cast<void*>(iova), length);
  if (region.gpu < 0) {
    errno = EINVAL;
    return nullptr;
  }
  return enter_gpu(pd, region);
}

int dereg_mr(ibv_mr* handle) {
  Mr* mr = reinterpret_cast<Mr*>(handle);
  Runtime& runtime = *Context::of(handle->context).runtime;
  if (runtime.orphaned()) return 0;
  SharedMr& shared = runtime.process().arena().mr(handle->handle);
  shared.key.store(0);
  // The users are transfers in progress. A process that was killed during one leaves its count
  // behind.
  uint64_t until = now_ns() + kDeregisterPatienceNs;
  while (shared.users.load() != 0 && now_ns() < until) std::this_thread::yield();
  shared.users.store(0);
  if (mr->gpu_bytes != 0) runtime.gpu().detach(mr->gpu_bytes);
  runtime.mr_indices().give(handle->handle);
  Pd::of(handle->pd).objects.fetch_sub(1);
  delete mr;
  return 0;
}

}  // namespace softhca
