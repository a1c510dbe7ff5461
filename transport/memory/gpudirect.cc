#include "transport/memory/gpudirect.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "drivers/cuda/cuda_driver.h"
#include "transport/memory/registration_failure.h"

namespace gdr::transport {
namespace {

// What helps whatever the cause is.
constexpr char kHostBuffers[] =
    "set NCCL_NET_GDR_LEVEL=LOC, with which NCCL keeps its buffers in host memory "
    "(NCCL_NET_GDR_READ=0: those that it sends from)";

// A dma-buf that NCCL gave stays NCCL's; one that is exported here is closed when the registration
// is made. The registration itself keeps the pages.
Result<ibv_mr*> register_by_dmabuf(const HcaContext& hca, const MemoryRegion& region,
                                   PciOrdering ordering, Attempt* attempt) {
  if (region.dmabuf_fd >= 0) return hca.registrations().acquire(region, ordering);
  if (!hca.supports_dmabuf()) return fail(Code::kUnsupported, "", EOPNOTSUPP);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  MemoryRegion exported = region;
  exported.address = region.address & ~(page - 1);
  exported.bytes = (region.address + region.bytes - exported.address + page - 1) & ~(page - 1);
  Result<UniqueFd> fd =
      cuda::export_dmabuf(reinterpret_cast<void*>(exported.address), exported.bytes);
  attempt->export_failed = !fd.has_value();
  if (!fd) return forward_error(fd);
  exported.dmabuf_fd = fd->get();
  exported.dmabuf_offset = 0;
  return hca.registrations().acquire(exported, ordering);
}

Result<ibv_mr*> register_by_address(const HcaContext& hca, MemoryRegion region,
                                    PciOrdering ordering) {
  region.dmabuf_fd = -1;
  return hca.registrations().acquire(region, ordering);
}

}  // namespace

Result<DirectRegistration> register_direct(const HcaContext& hca, const MemoryRegion& region,
                                           const GpuIdentity& gpu, PciOrdering ordering,
                                           const RegistrationPaths& allowed) {
  Findings failures;
  int error = 0;
  for (RegistrationPath path : {RegistrationPath::kDmaBuf, RegistrationPath::kPeermem}) {
    if (!allowed.includes(path)) {
      failures.push_back(disabled_by_user(path));
      continue;
    }
    Attempt attempt{.path = path, .bytes = region.bytes};
    Result<ibv_mr*> mr = path == RegistrationPath::kDmaBuf
                             ? register_by_dmabuf(hca, region, ordering, &attempt)
                             : register_by_address(hca, region, ordering);
    if (mr) return DirectRegistration{*mr, path};
    attempt.error = error = mr.error().sys_errno;
    failures.push_back(explain(attempt, read_system_facts(hca, gpu)));
  }
  return fail(Code::kSystem, joined_text(failures, kHostBuffers), error);
}

std::string why_not_direct(const HcaContext& hca, const RegistrationPaths& allowed) {
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  const GpuIdentity gpu{driver ? driver->current_device().value_or(-1) : -1, ""};
  const SystemFacts facts = read_system_facts(hca, gpu);
  // What the two attempts would fail with: an HCA that takes dma-bufs lacks only the GPU driver's
  // export, and the kernel does not know a GPU's address.
  const Attempt attempts[] = {
      {RegistrationPath::kDmaBuf, hca.supports_dmabuf(), EOPNOTSUPP, 0},
      {RegistrationPath::kPeermem, false, EFAULT, 0},
  };
  Findings failures;
  for (const Attempt& attempt : attempts) {
    const bool tried = allowed.includes(attempt.path);
    failures.push_back(tried ? explain(attempt, facts) : disabled_by_user(attempt.path));
  }
  return joined_text(failures);
}

}  // namespace gdr::transport
