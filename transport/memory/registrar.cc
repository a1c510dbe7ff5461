#include "transport/memory/registrar.h"

#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

const SlotFlags kUsersFlags{wire::kUsersBuffer};

// "GPU 0000:1a:00.0 and mlx5_0", the pair that a registration connects, as logs name it.
std::string pair_text(const GpuIdentity& gpu, const HcaContext& hca) {
  return "GPU " + (gpu.pci_id.empty() ? "of unknown PCI address" : gpu.pci_id) + " and " +
         hca.name();
}

}  // namespace

Registrar::Registrar(std::shared_ptr<const MemoryOptions> options) : options_(std::move(options)) {}

PciOrdering Registrar::ordering() const {
  return options_->relaxed_ordering ? PciOrdering::kRelaxed : PciOrdering::kStrict;
}

Result<std::unique_ptr<MemoryHandle>> Registrar::register_memory(const RegistrationScope& scope,
                                                                 const MemoryRegion& region) {
  auto handle = std::make_unique<MemoryHandle>();
  handle->reserve(scope.hcas.size());
  Status status = region.cuda ? register_gpu(scope, region, handle.get())
                              : register_host(scope, region, handle.get());
  if (!status) return forward_error(status);
  return handle;
}

Status Registrar::register_host(const RegistrationScope& scope, const MemoryRegion& region,
                                MemoryHandle* handle) {
  for (size_t rail = 0; rail < scope.hcas.size(); ++rail) {
    const std::shared_ptr<HcaContext>& hca = scope.hcas[rail];
    if (hca == nullptr) continue;
    const auto acquire = [&] {
      Result<ibv_mr*> mr = hca->registrations().acquire(region, ordering());
      if (!mr) mr.error().text += lack_text(*hca, mr.error().sys_errno);
      return mr;
    };
    Result<ibv_mr*> mr = acquire();
    while (!mr && scope.make_room(rail, region.bytes, mr.error())) mr = acquire();
    if (!mr && !goes_on_without(scope, rail, mr.error())) return forward_error(mr);
    if (!mr) continue;
    handle->add(rail, hca, *mr, scope.standby(rail));
    std::lock_guard lock(mutex_);
    ++counts_[hca->name()].host;
  }
  return {};
}

// The errno does not show that an HCA is lost. mlx5 returns EIO, ENOLINK or ENXIO for one that its
// driver has given up, by Linux release and by what it was doing (mlx5_internal_err_ret_value); the
// last attempt may have been by nvidia-peermem, without which Linux returns EFAULT before it comes
// to the HCA; and a GPU's driver may return EIO for memory that it cannot pin. So the HCA itself is
// asked. Once the rail is lost, neither end uses its keys.
bool Registrar::goes_on_without(const RegistrationScope& scope, size_t rail, const Error& error) {
  if (scope.lose_rail != nullptr && scope.hcas[rail]->is_gone()) {
    return scope.lose_rail(rail);
  }
  return scope.drop_standby != nullptr && scope.drop_standby(rail, error);
}

Status Registrar::register_gpu(const RegistrationScope& scope, const MemoryRegion& region,
                               MemoryHandle* handle) {
  handle->host = false;
  const GpuIdentity gpu = GpuIdentity::of_address(region.address);
  handle->own =
      scope.own->claim(GpuAllocation::containing({region.address, region.bytes}, gpu.device),
                       scope.sends && options_->relays);
  handle->slot_flags = handle->is_users() ? &kUsersFlags : &own_flags_;
  for (size_t rail = 0; rail < scope.hcas.size(); ++rail) {
    if (scope.hcas[rail] == nullptr) continue;
    Status direct = register_direct_on(scope, rail, region, gpu, handle);
    while (!direct && !handle->is_users() && scope.make_room(rail, region.bytes, direct.error())) {
      direct = register_direct_on(scope, rail, region, gpu, handle);
    }
    if (direct || goes_on_without(scope, rail, direct.error())) continue;
    const std::string pair = pair_text(gpu, *scope.hcas[rail]);
    if (handle->is_users()) return tl::unexpected(decline(pair, region, direct.error()));
    // It may be a user's buffer of the same size as NCCL's own (OwnAllocations::claim), without
    // which NCCL goes on.
    own_flags_.store(wire::kAfterDecline, std::memory_order_relaxed);
    return fail(direct.error().code,
                pair + ": GPU memory of " + std::to_string(region.bytes) +
                    " bytes cannot be registered. " + direct.error().text,
                direct.error().sys_errno);
  }
  return {};
}

// An HCA that refuses a user's buffer, for example because BAR1 is full, is an accident of this end
// alone: the other end may have registered its own already.
Error Registrar::decline(const std::string& pair, const MemoryRegion& region,
                         const Error& failure) {
  own_flags_.store(wire::kAfterDecline, std::memory_order_relaxed);
  if (log_once("users " + pair)) {
    GDR_WARN(
        "%s: a user's buffer of %zu bytes cannot be registered, and NCCL goes on without it at "
        "this end. A connection fails where the other end uses its own registration. %s; or: set "
        "NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 on all ranks",
        pair.c_str(), region.bytes, failure.text.c_str());
  }
  return {Code::kDeclined, pair + ": a user's buffer is declined. " + failure.text,
          failure.sys_errno};
}

Status Registrar::register_direct_on(const RegistrationScope& scope, size_t rail,
                                     const MemoryRegion& region, const GpuIdentity& gpu,
                                     MemoryHandle* handle) {
  const HcaContext& hca = *scope.hcas[rail];
  Result<DirectRegistration> direct =
      register_direct(hca, region, gpu, ordering(), options_->gpu_memory);
  if (!direct) return forward_error(direct);
  handle->add(rail, scope.hcas[rail], direct->mr, scope.standby(rail));
  {
    std::lock_guard lock(mutex_);
    ++counts_[hca.name()].gpu[static_cast<size_t>(direct->path)];
  }
  const std::string text = pair_text(gpu, hca) + ": GPUDirect RDMA by " + name_of(direct->path);
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
