#include "transport/memory/registrar.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

// What turns NCCL's registration of users' buffers off.
constexpr char kNoUserBuffers[] =
    "set NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 on all ranks";

// "GPU 0000:1a:00.0 and mlx5_0", the pair that a registration connects, as logs name it.
std::string pair_text(const GpuIdentity& gpu, const HcaContext& hca) {
  return "GPU " + (gpu.pci_id.empty() ? "of unknown PCI address" : gpu.pci_id) + " and " +
         hca.name();
}

}  // namespace

Registrar::Registrar(std::shared_ptr<const MemoryOptions> options)
    : options_(std::move(options)), bounce_buffers_(options_->staging_bytes) {}

PciOrdering Registrar::ordering(const HcaContext& hca) const {
  const bool relaxed = options_->relaxed_ordering && hca.api().reg_mr_iova2 != nullptr;
  return relaxed ? PciOrdering::kRelaxed : PciOrdering::kStrict;
}

Result<std::unique_ptr<MemoryHandle>> Registrar::register_memory(const RegistrationScope& scope,
                                                                 const MemoryRegion& region) {
  auto handle = std::make_unique<MemoryHandle>();
  handle->reserve(scope.hcas.size());
  handle->direct_at_most = scope.max_write_bytes;
  Status status = region.cuda ? register_gpu(scope, region, handle.get())
                              : register_on_rails(scope, region, &MemoryHandle::keys, handle.get());
  if (!status) return forward_error(status);
  return handle;
}

Status Registrar::register_on_rails(const RegistrationScope& scope, const MemoryRegion& region,
                                    MemoryHandle::Keys MemoryHandle::*keys, MemoryHandle* handle) {
  for (size_t rail = 0; rail < scope.hcas.size(); ++rail) {
    const std::shared_ptr<HcaContext>& hca = scope.hcas[rail];
    if (hca == nullptr) continue;
    Result<ibv_mr*> mr = hca->registrations().acquire(region, ordering(*hca));
    if (!mr && !goes_on_without(scope, rail, mr.error())) return forward_error(mr);
    if (!mr) continue;
    handle->add(keys, rail, hca, *mr);
    if (keys == &MemoryHandle::keys) count_host(*hca);
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
      scope.agreement->claim(GpuAllocation::containing({region.address, region.bytes}, gpu.device),
                             scope.sends && options_->relays);
  if (handle->own == nullptr) return register_users(scope, region, gpu, handle);
  if (Status status = register_own(scope, region, gpu, handle); !status) return status;
  scope.agreement->note_own(!handle->direct || limits_sends(scope));
  return {};
}

Status Registrar::register_direct_on(const RegistrationScope& scope, size_t rail,
                                     const MemoryRegion& region, const GpuIdentity& gpu,
                                     MemoryHandle* handle) {
  if (options_->gpu_memory.only_staging()) {
    return fail(Code::kInvalidUsage, "GDR_NCCL_GPU_MEMORY=staging requests this");
  }
  const HcaContext& hca = *scope.hcas[rail];
  MemoryRegion asked = region;
  asked.over_pcie = options_->over_pcie.contains({gpu.pci_id, hca.name()});
  Result<DirectRegistration> direct =
      register_direct(hca, asked, gpu, ordering(hca), options_->gpu_memory);
  if (!direct) return forward_error(direct);
  handle->add(&MemoryHandle::keys, rail, scope.hcas[rail], direct->mr);
  count(hca, direct->path);
  log_direct(pair_text(gpu, hca), direct->path);
  return {};
}

Status Registrar::register_own(const RegistrationScope& scope, const MemoryRegion& region,
                               const GpuIdentity& gpu, MemoryHandle* handle) {
  for (size_t rail = 0; rail < scope.hcas.size(); ++rail) {
    if (scope.hcas[rail] == nullptr) continue;
    const std::string pair = pair_text(gpu, *scope.hcas[rail]);
    Status direct = register_direct_on(scope, rail, region, gpu, handle);
    if (!direct && !goes_on_without(scope, rail, direct.error())) {
      if (Status status = check_staging_allowed(pair, direct.error()); !status) return status;
      if (Status status = stage_all(scope, region, gpu.device, handle); !status) {
        return fail(Code::kSystem, pair + ": no GPUDirect. " + direct.error().text +
                                       ". Staging failed, too: " + status.error().text);
      }
      count(*scope.hcas[rail], RegistrationPath::kStaged);
      log_staged(pair, direct.error());
      return {};
    }
  }
  if (!limits_sends(scope)) return {};
  return stage_large_sends(scope, region, gpu.device, handle);
}

// An HCA that refuses a user's buffer, for example because BAR1 is full, is an accident of this end
// alone, as it is with NCCL's net_ib: the other end may have accepted its own already.
Status Registrar::register_users(const RegistrationScope& scope, const MemoryRegion& region,
                                 const GpuIdentity& gpu, MemoryHandle* handle) {
  if (Status status = check_neither_stages(scope); !status) return status;
  for (size_t rail = 0; rail < scope.hcas.size(); ++rail) {
    if (scope.hcas[rail] == nullptr) continue;
    const std::string pair = pair_text(gpu, *scope.hcas[rail]);
    Status direct = register_direct_on(scope, rail, region, gpu, handle);
    if (!direct && !goes_on_without(scope, rail, direct.error())) {
      if (log_once("users " + pair)) {
        GDR_WARN(
            "%s: a user's buffer of %zu bytes cannot be registered, and NCCL goes on without. If "
            "the peer registers its own, data of point-to-point operations and of AllGather may be "
            "wrong. %s; or %s",
            pair.c_str(), region.bytes, direct.error().text.c_str(), kNoUserBuffers);
      }
      return fail(Code::kDeclined, pair + ": a user's buffer is declined. " + direct.error().text,
                  direct.error().sys_errno);
    }
  }
  return {};
}

Status Registrar::check_neither_stages(const RegistrationScope& scope) {
  auto declined = [](const char* end) {
    return fail(Code::kDeclined, std::string(end) +
                                     " stages GPU memory, so that both ends decline users' "
                                     "buffers, and NCCL goes on with its own. To avoid that, " +
                                     kNoUserBuffers);
  };
  if (scope.agreement->stages()) return declined("this end");
  const std::optional<bool> peer = scope.agreement->peer_stages();
  if (peer == true) return declined("the peer");
  if (peer.has_value()) return {};
  if (log_once("unknown peer")) {
    GDR_WARN(
        "a peer does not answer whether it stages GPU memory, so that users' buffers are declined. "
        "If the peer accepts them, data may be wrong. Fix: check the network of the handshake, or "
        "%s",
        kNoUserBuffers);
  }
  return fail(Code::kDeclined, "the peer does not answer whether it stages GPU memory");
}

Status Registrar::check_staging_allowed(const std::string& pair, const Error& failure) const {
  const char* forbidden = options_->strict                ? "GDR_NCCL_STRICT=1 forbids staging"
                          : !options_->gpu_memory.staging ? "GDR_NCCL_GPU_MEMORY excludes staging"
                                                          : nullptr;
  if (forbidden == nullptr) return {};
  return fail(failure.code, pair + ": no GPUDirect, and " + forbidden + ". " + failure.text,
              failure.sys_errno);
}

// Stages all messages, on every rail: also on those on which GPUDirect works, so that a message has
// one source.
Status Registrar::stage_all(const RegistrationScope& scope, const MemoryRegion& region, int gpu,
                            MemoryHandle* handle) {
  handle->direct = false;
  handle->direct_at_most = 0;
  return stage(scope, region, gpu, handle);
}

// GDR_NCCL_GDR_LIMIT. If staging would be unsafe now, all messages go by GPUDirect, which works.
Status Registrar::stage_large_sends(const RegistrationScope& scope, const MemoryRegion& region,
                                    int gpu, MemoryHandle* handle) {
  handle->direct_at_most = std::min(*options_->gpudirect_limit, scope.max_write_bytes);
  Status staged = stage(scope, region, gpu, handle);
  if (!staged && staged.error().code == Code::kDeclined) {
    handle->direct_at_most = scope.max_write_bytes;
    return {};
  }
  if (!staged) {
    staged.error().text = "GDR_NCCL_GDR_LIMIT is set, and staging failed: " + staged.error().text;
  }
  return staged;
}

Status Registrar::stage(const RegistrationScope& scope, const MemoryRegion& region, int gpu,
                        MemoryHandle* handle) {
  if (gpu < 0) return fail(Code::kUnsupported, "CUDA does not know the memory");
  // NCCL registers its own buffers before it uses the connection. With PXN it may register those of
  // another rank later: page-locking waits for running kernels, which may wait for this connection.
  const auto locking = scope.traffic_started() ? BounceBufferPool::Locking::kForbidden
                                               : BounceBufferPool::Locking::kAllowed;
  Result<std::shared_ptr<const BounceBuffer>> bounce_buffer =
      bounce_buffers_.get(gpu, region.address, region.bytes, locking);
  if (!bounce_buffer) return forward_error(bounce_buffer);
  Result<std::shared_ptr<CopyStream>> stream = scope.copy_streams->get(gpu);
  if (!stream) return forward_error(stream);
  handle->staging = std::make_unique<StagedMemory>(std::move(*bounce_buffer), std::move(*stream));
  const MemoryRegion host{reinterpret_cast<uintptr_t>(handle->staging->begin()),
                          handle->staging->bytes()};
  return register_on_rails(scope, host, &MemoryHandle::staging_keys, handle);
}

void Registrar::count(const HcaContext& hca, RegistrationPath path) {
  std::lock_guard lock(mutex_);
  ++counts_[hca.name()].gpu[static_cast<size_t>(path)];
}

void Registrar::count_host(const HcaContext& hca) {
  std::lock_guard lock(mutex_);
  ++counts_[hca.name()].host;
}

std::map<std::string, RegistrationCounts> Registrar::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

void Registrar::log_direct(const std::string& pair, RegistrationPath path) {
  std::string text = pair + ": GPUDirect RDMA by " + name_of(path);
  if (log_once(text)) GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
}

void Registrar::log_staged(const std::string& pair, const Error& failure) {
  if (!log_once(pair)) return;
  GDR_WARN(
      "%s: GPU memory is staged through host memory, which costs much of the bandwidth, and can "
      "deadlock if CUDA_DEVICE_MAX_CONNECTIONS is below 32. %s. NCCL_NET_GDR_LEVEL=LOC makes NCCL "
      "use host buffers of its own instead, which do not deadlock. GDR_NCCL_STRICT=1 makes this an "
      "error",
      pair.c_str(), failure.text.c_str());
}

std::string Registrar::counts_text() const {
  std::array<uint64_t, kRegistrationPathCount> counts{};
  {
    std::lock_guard lock(mutex_);  // without a copy: comms close where there is no memory, too
    for (const auto& [hca, of_hca] : counts_) {
      for (size_t path = 0; path < counts.size(); ++path) counts[path] += of_hca.gpu[path];
    }
  }
  if (counts == std::array<uint64_t, kRegistrationPathCount>{}) return "";
  return std::to_string(counts[0]) + " by " + name_of(RegistrationPath::kDmaBuf) + ", " +
         std::to_string(counts[1]) + " by " + name_of(RegistrationPath::kPeermem) + ", " +
         std::to_string(counts[2]) + " staged";
}

bool Registrar::log_once(const std::string& what) {
  std::lock_guard lock(mutex_);
  return logged_.insert(what).second;
}

}  // namespace gdr::transport
