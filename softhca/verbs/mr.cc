#include "softhca/verbs/mr.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "softhca/gpu/copier.h"
#include "softhca/model/clock.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

bool access_valid(unsigned access) {
  const unsigned remote_change = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  return (access & remote_change) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

// Optional flags may be ignored (ibv_reg_mr(3)).
bool access_supported(unsigned access) {
  const unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB |
                         IBV_ACCESS_OPTIONAL_RANGE;
  return (access & ~known) == 0;
}

// Two numbers for the same byte of memory have the same place in their pages.
bool same_in_page(uint64_t a, uint64_t b) { return (a ^ b) % kPage == 0; }

// Returns 0, or the errno with which Linux refuses these arguments of ibv_reg_dmabuf_mr
// (uverbs_std_types_mr.c, ib_umem_dmabuf_get()).
int check_dmabuf(uint64_t offset, uint64_t length, uint64_t iova, int fd) {
  uint64_t end = 0;
  if (!same_in_page(offset, iova) || __builtin_add_overflow(offset, length, &end)) return EINVAL;
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size < 0) return errno == EBADF ? EBADF : EINVAL;
  return length == 0 || static_cast<uint64_t>(size) < end ? EINVAL : 0;
}

// Waits as long as the configuration says that pinning takes.
void wait_for_pinning(ibv_pd* pd, size_t bytes) {
  const DeviceConfig& device = *Context::of(pd->context).device->config;
  constexpr double kMib = 1 << 20;
  double us =
      device.registration_us + device.registration_us_per_mib * static_cast<double>(bytes) / kMib;
  if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
}

Runtime& runtime_of(const ibv_pd* pd) { return *Context::of(pd->context).runtime; }

SharedMr& shared_of(Runtime& runtime, const Registration& registration) {
  return runtime.process().arena().mr(registration.index);
}

// Clears the key of a region, and waits for the accesses in progress, for at most 2 s: one of a
// process that was killed never ends.
void withdraw(SharedMr& mr) {
  constexpr uint64_t kPatienceNs = 2'000'000'000;
  mr.key.store(0);
  uint64_t until = now_ns() + kPatienceNs;
  while (mr.users.load() != 0) {
    if (now_ns() >= until) {
      mr.users.store(0);
      return;
    }
    std::this_thread::yield();
  }
}

// Makes the keys of registrations fail that have lost some of their pages.
void withdraw_lost(Runtime& runtime, uint64_t begin, uint64_t end) {
  runtime.registrations().for_each([&](const Registration& registration) {
    const Region& region = registration.region;
    const bool lost = region.address < end && begin < region.address + region.length;
    if (!lost || registration.pinned.gpu >= 0) return;
    if (shared_of(runtime, registration).key.exchange(0) == 0) return;
    fprintf(stderr, "softhca: memory of the registration of %llu bytes at 0x%llx was unmapped\n",
            static_cast<unsigned long long>(region.length),
            static_cast<unsigned long long>(region.address));
  });
}

void watch_pages(Runtime& runtime, const Registration& registration) {
  PageWatch* watch = runtime.page_watch(
      [&runtime](uint64_t begin, uint64_t end) { withdraw_lost(runtime, begin, end); });
  if (watch == nullptr || registration.pinned.gpu >= 0) return;
  watch->add(registration.region.address, registration.region.length);
}

// Makes the region accessible under its key.
void publish(Runtime& runtime, const Registration& registration) {
  watch_pages(runtime, registration);
  SharedMr& shared = shared_of(runtime, registration);
  const Region& region = registration.region;
  shared.pd = registration.use->domain().number();
  shared.access = region.access;
  shared.iova = region.iova;
  shared.length = region.length;
  shared.address = registration.pinned.address;
  shared.gpu = registration.pinned.gpu;
  shared.key.store(registration.key);
}

ibv_mr* make_handle(ibv_pd* pd, std::shared_ptr<Registration> registration) {
  auto* mr = new Mr{};
  mr->verbs.context = pd->context;
  mr->verbs.pd = pd;
  mr->verbs.length = registration->region.length;
  mr->verbs.handle = registration->index;
  mr->verbs.lkey = mr->verbs.rkey = registration->key;
  mr->registration = std::move(registration);
  return &mr->verbs;
}

// Enters a region into the table. Null with errno ENOMEM when it is full.
ibv_mr* enter(ibv_pd* pd, const Region& region, PinnedMemory pinned) {
  wait_for_pinning(pd, region.length);
  Runtime& runtime = runtime_of(pd);
  int index = runtime.take_registration();
  if (index < 0) {
    errno = ENOMEM;
    return nullptr;
  }
  auto registration = std::make_shared<Registration>();
  registration->index = static_cast<uint32_t>(index);
  registration->key = runtime.make_key(registration->index);
  registration->region = region;
  registration->use.emplace(Pd::of(pd).domain);
  registration->pinned = std::move(pinned);
  publish(runtime, *registration);
  runtime.registrations().put(registration->index, registration);
  if (Counters* counters = runtime.process().counters()) {
    counters->add_registration(Context::of(pd->context).device->index, region.length);
  }
  ibv_mr* mr = make_handle(pd, std::move(registration));
  mr->addr = reinterpret_cast<void*>(region.address);
  return mr;
}

// Returns 0, or the errno with which every registration with this access fails now.
int check_registration(ibv_pd* pd, unsigned access) {
  Context& context = Context::of(pd->context);
  if (context.runtime->orphaned() || context.device->error() != 0) return EIO;
  if (!access_valid(access)) return EINVAL;
  if (!access_supported(access)) return EOPNOTSUPP;
  return context.runtime->faults().registration_error(context.device->index);
}

// What ibv_rereg_mr asks for. `pinned` is of `region` where `repins`.
struct Change {
  ibv_pd* pd = nullptr;  // null: the same
  Region region;
  bool repins = false;
  PinnedMemory pinned;
};

// Checks what libibverbs and drivers check before they touch the region. Returns 0 or EINVAL.
int check_change(const Mr& mr, int flags, const ibv_pd* pd, const void* address, size_t length,
                 unsigned access) {
  constexpr int kKnown =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  if ((flags & ~kKnown) != 0 || mr.registration->region.dmabuf) return EINVAL;
  bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (moves && (address == nullptr || length == 0)) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0 && access != 0) return EINVAL;
  bool new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  return new_pd && (pd == nullptr || pd->context != mr.verbs.context) ? EINVAL : 0;
}

// Pins what the change needs. Returns 0 or an errno.
int prepare(ibv_pd* pd, Change& change) {
  if (int error = check_registration(pd, change.region.access); error != 0) return error;
  if (!change.repins) return 0;
  int error = pin(runtime_of(pd), change.region, &change.pinned);
  if (error == 0) wait_for_pinning(pd, change.region.length);
  return error;
}

void carry_out(Mr& mr, Change change) {
  Runtime& runtime = runtime_of(mr.verbs.pd);
  Registration& registration = *mr.registration;
  withdraw(shared_of(runtime, registration));
  registration.region = change.region;
  if (change.repins) registration.pinned = std::move(change.pinned);
  if (change.pd != nullptr) {
    registration.use.emplace(Pd::of(change.pd).domain);
    mr.verbs.pd = change.pd;
  }
  publish(runtime, registration);
  mr.verbs.addr = reinterpret_cast<void*>(change.region.address);
  mr.verbs.length = change.region.length;
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  Region region = {reinterpret_cast<uint64_t>(address), length, iova, access, false};
  errno = check_registration(pd, access);
  if (errno == 0 && (length == 0 || !same_in_page(region.address, iova))) errno = EINVAL;
  if (errno != 0) return nullptr;
  PinnedMemory pinned;
  errno = pin(runtime_of(pd), region, &pinned);
  return errno == 0 ? enter(pd, region, std::move(pinned)) : nullptr;
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      unsigned access) {
  Runtime& runtime = runtime_of(pd);
  errno = runtime.config().gpu.dmabuf ? check_dmabuf(offset, length, iova, fd) : EOPNOTSUPP;
  if (errno == 0) errno = check_registration(pd, access);
  if (errno != 0) return nullptr;
  Region region = {iova, length, iova, access, true};
  PinnedMemory pinned;
  int32_t gpu = runtime.gpu().device_of(reinterpret_cast<void*>(iova), length);
  errno = gpu < 0 ? EINVAL : pin_gpu(runtime, gpu, region, &pinned);
  // The descriptor cannot be mapped: the memory is found by iova, its address in this process.
  if (errno == 0 && !GpuCopier::get()->is_dmabuf_of(gpu, iova - offset, fd)) errno = EINVAL;
  return errno == 0 ? enter(pd, region, std::move(pinned)) : nullptr;
}

int rereg_mr(ibv_mr* handle, int flags, ibv_pd* pd, void* address, size_t length, unsigned access) {
  Mr& mr = Mr::of(handle);
  errno = check_change(mr, flags, pd, address, length, access);
  if (errno != 0) return IBV_REREG_MR_ERR_INPUT;
  Change change;
  change.region = mr.registration->region;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) change.pd = pd;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) change.region.access = access;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    change.region.address = change.region.iova = reinterpret_cast<uint64_t>(address);
    change.region.length = length;
  }
  // Host memory may have become writable; CUDA memory is pinned in the same way for every access.
  change.repins = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 ||
                  ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 && mr.registration->pinned.gpu < 0);
  errno = prepare(handle->pd, change);
  if (errno != 0) return IBV_REREG_MR_ERR_CMD;
  carry_out(mr, std::move(change));
  return 0;
}

int dereg_mr(ibv_mr* handle) {
  Mr& mr = Mr::of(handle);
  Runtime& runtime = runtime_of(handle->pd);
  if (runtime.orphaned()) return 0;
  if (Context::of(handle->context).device->removed()) return EIO;
  Registration& registration = *mr.registration;
  withdraw(shared_of(runtime, registration));
  runtime.registrations().remove(registration.index);
  runtime.give_registration(registration.index);
  registration.pinned = PinnedMemory{};
  registration.use.reset();
  delete &mr;
  return 0;
}

ibv_mr* import_mr(ibv_pd* pd, uint32_t number) {
  std::shared_ptr<Registration> registration = runtime_of(pd).registrations().find(number);
  if (registration == nullptr ||
      registration->use->domain().number() != Pd::of(pd).domain->number()) {
    errno = EINVAL;
    return nullptr;
  }
  return make_handle(pd, std::move(registration));
}

void unimport_mr(ibv_mr* mr) { delete &Mr::of(mr); }

}  // namespace softhca
