#include "transport/memory/registrar.h"

#include "base/log.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"
#include "transport/memory/gpudirect.h"

namespace gdr::transport {
namespace {

const SlotFlags kUsersFlags{wire::kUsersBuffer};

// "GPU 0000:1a:00.0 and mlx5_0", the pair that a registration connects, as logs name it.
std::string pair_text(const GpuIdentity& gpu, const HcaContext& hca) {
  return "GPU " + (gpu.pci_id.empty() ? "of unknown PCI address" : gpu.pci_id) + " and " +
         hca.name();
}

// Asks the CUDA driver which GPU owns the memory at the address.
GpuIdentity gpu_of(uintptr_t address) {
  GpuIdentity gpu;
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver) return gpu;
  gpu.device = driver->device_of_pointer(reinterpret_cast<const void*>(address)).value_or(-1);
  if (gpu.device >= 0) gpu.pci_id = driver->pci_bus_id(gpu.device).value_or("");
  return gpu;
}

// Returns the allocation that contains the region, which is memory of that CUDA device; the region
// itself if the driver knows none.
GpuAllocation allocation_of(const MemoryRegion& region, int device) {
  const GpuAllocation same{region.address, region.bytes};
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver || device < 0) return same;
  Result<cuda::PrimaryContext> context = cuda::PrimaryContext::retain(driver->api(), device);
  if (!context) return same;
  cuda::CurrentContext current(*context);
  cuda::DevicePtr base = 0;
  size_t bytes = 0;
  const bool known = current.status() && driver->api().mem_get_address_range(
                                             &base, &bytes, region.address) == cuda::kSuccess;
  return known ? GpuAllocation{static_cast<uintptr_t>(base), bytes} : same;
}

}  // namespace

// The errno does not show that an HCA is lost. mlx5 returns EIO, ENOLINK or ENXIO for one that its
// driver has given up, by Linux release and by what it was doing (mlx5_internal_err_ret_value); the
// last attempt may have been by nvidia-peermem, without which Linux returns EFAULT before it comes
// to the HCA; and a GPU's driver may return EIO for memory that it cannot pin. So the HCA itself is
// asked. Once the rail is lost, neither end uses its keys.
Result<std::unique_ptr<MemoryHandle>> Registrar::register_memory(const RegistrationScope& scope,
                                                                 const MemoryRegion& region) {
  auto handle = std::make_unique<MemoryHandle>();
  handle->reserve(scope.rails.size());
  GpuIdentity gpu;
  if (region.cuda) {
    gpu = gpu_of(region.address);
    handle->host = false;
    handle->own =
        scope.own->claim(allocation_of(region, gpu.device), scope.sends && options_->relays);
    handle->slot_flags = handle->is_users() ? &kUsersFlags : &own_flags_;
  }
  const size_t room_for = handle->is_users() ? 0 : region.bytes;
  for (size_t rail = 0; rail < scope.rails.size();) {
    const RegistrationScope::Rail& on = scope.rails[rail];
    Status done = on.hca == nullptr ? Status{} : register_on(on, rail, region, gpu, handle.get());
    const AfterFailure next =
        done ? AfterFailure::kGoOn : scope.on_failure(rail, room_for, done.error());
    if (next == AfterFailure::kGoOn) ++rail;
    if (next != AfterFailure::kFail) continue;
    if (!region.cuda) return forward_error(done);
    return tl::unexpected(
        refused(pair_text(gpu, *on.hca), region, handle->is_users(), done.error()));
  }
  return handle;
}

// An HCA that refuses a user's buffer, for example because BAR1 is full, is an accident of this end
// alone: the other end may have registered its own already. What counts as NCCL's own may be a
// user's buffer of the same size (OwnAllocations::claim), without which NCCL goes on, too.
Error Registrar::refused(const std::string& pair, const MemoryRegion& region, bool is_users,
                         const Error& why) {
  own_flags_.store(wire::kAfterDecline, std::memory_order_relaxed);
  if (!is_users) {
    return {why.code,
            pair + ": GPU memory of " + std::to_string(region.bytes) +
                " bytes cannot be registered. " + why.text,
            why.sys_errno};
  }
  if (log_once("users " + pair)) {
    GDR_WARN(
        "%s: a user's buffer of %zu bytes cannot be registered, and NCCL goes on without it at "
        "this end. A connection fails where the other end uses its own registration. %s; or: set "
        "NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 on all ranks",
        pair.c_str(), region.bytes, why.text.c_str());
  }
  return {Code::kDeclined, pair + ": a user's buffer is declined. " + why.text, why.sys_errno};
}

Status Registrar::register_on(const RegistrationScope::Rail& on, size_t rail,
                              const MemoryRegion& region, const GpuIdentity& gpu,
                              MemoryHandle* handle) {
  const std::shared_ptr<HcaContext>& hca = on.hca;
  const PciOrdering ordering =
      options_->relaxed_ordering ? PciOrdering::kRelaxed : PciOrdering::kStrict;
  if (!region.cuda) {
    Result<ibv_mr*> mr = hca->registrations().acquire(region, ordering);
    if (!mr) {
      mr.error().text += lack_text(*hca, mr.error().sys_errno);
      return forward_error(mr);
    }
    handle->add(rail, hca, *mr, on.standby);
    std::lock_guard lock(mutex_);
    ++counts_[hca->name()].host;
    return {};
  }
  Result<DirectRegistration> direct =
      register_direct(*hca, region, gpu, ordering, options_->gpu_memory);
  if (!direct) return forward_error(direct);
  handle->add(rail, hca, direct->mr, on.standby);
  {
    std::lock_guard lock(mutex_);
    ++counts_[hca->name()].gpu[static_cast<size_t>(direct->path)];
  }
  const std::string text = pair_text(gpu, *hca) + ": GPUDirect RDMA by " + name_of(direct->path);
  if (log_once(text)) GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
  return {};
}

std::map<std::string, RegistrationCounts> Registrar::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

bool Registrar::log_once(const std::string& what) {
  std::lock_guard lock(mutex_);
  return logged_.insert(what).second;
}

}  // namespace gdr::transport
