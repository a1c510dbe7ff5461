#include "transport/memory/registrar.h"

#include <unistd.h>

#include <cerrno>
#include <limits>

#include "base/log.h"
#include "drivers/cuda/cuda_driver.h"
#include "transport/memory/bar1.h"
#include "transport/memory/process_limits.h"

namespace gdr::transport {
namespace {

// The CUDA device that owns the memory; -1 where that cannot be told.
int gpu_of(const void* address) {
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver) return -1;
  return driver->device_of_pointer(address).value_or(-1);
}

// "0000:1a:00.0"; empty where it cannot be told.
std::string pci_id_of(int device) {
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver || device < 0) return "";
  return driver->pci_bus_id(device).value_or("");
}

MemoryRange range_of(const MemoryRegion& region) {
  return {reinterpret_cast<uintptr_t>(region.address), region.bytes};
}

// Why no way worked, and what mends it.
class FailureList {
 public:
  void add(RegistrationPath way, const Explanation& explanation) {
    append(&reasons_, name_of(way) + std::string(": ") + explanation.text, "; ");
    append(&fixes_, explanation.fix, "; or: ");
  }
  std::string text() const { return fixes_.empty() ? reasons_ : reasons_ + ". Mend: " + fixes_; }

 private:
  static void append(std::string* list, const std::string& text, const char* separator) {
    if (text.empty() || list->find(text) != std::string::npos) return;
    if (!list->empty()) *list += separator;
    *list += text;
  }

  std::string reasons_;
  std::string fixes_;
};

Explanation disabled_by_user() {
  return {FailureReason::kDisabled, "left out by GDR_NCCL_GPU_MEMORY or NCCL_DMABUF_ENABLE", ""};
}

SystemFacts system_facts(const HcaContext& hca, int gpu, const std::string& pci_id) {
  SystemFacts now;
  now.kernel = kernel_release();
  now.hca_takes_dmabuf = hca.supports_dmabuf();
  if (const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared(); driver && gpu >= 0) {
    if (Result<bool> exports = driver->dmabuf_supported(gpu)) now.driver_exports = *exports;
  }
  now.memory_lock = memory_lock_limit();
  now.pinned_bytes = pinned_bytes();
  now.bar1_bytes = bar1_bytes(pci_id);
  now.registered_bytes = hca.registrations().gpu_bytes();
  now.file_descriptors_exhausted = file_descriptors_exhausted();
  now.module = hca.peermem();
  return now;
}

}  // namespace

std::string why_not_direct(const HcaContext& hca, const RegistrationPaths& allowed) {
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  const int gpu = driver ? driver->current_device().value_or(-1) : -1;
  const SystemFacts now = system_facts(hca, gpu, "");
  const Attempt dmabuf{RegistrationPath::kDmaBuf, hca.supports_dmabuf(), EOPNOTSUPP, 0};
  const Attempt peermem{RegistrationPath::kPeermem, false, EFAULT, 0};
  FailureList refusals;
  refusals.add(RegistrationPath::kDmaBuf,
               allowed.dmabuf ? explain(dmabuf, now) : disabled_by_user());
  refusals.add(RegistrationPath::kPeermem,
               allowed.peermem ? explain(peermem, now) : disabled_by_user());
  return refusals.text();
}

// One HCA and the GPU memory to register with it.
struct Registrar::Target {
  HcaContext& hca;
  const MemoryRegion& region;
  int gpu;             // CUDA's number; -1 where it cannot be told
  std::string pci_id;  // of the GPU
  bool relaxed_ordering;

  std::string pair() const {
    return "GPU " + (pci_id.empty() ? "of unknown place" : pci_id) + " and " + hca.name();
  }
};

Registrar::Registrar(std::shared_ptr<const MemoryOptions> options)
    : options_(std::move(options)), bounce_buffers_(options_->staging_bytes) {}

bool Registrar::relaxed_ordering(const HcaContext& hca) const {
  return options_->relaxed_ordering && hca.api().reg_mr_iova2 != nullptr;
}

Result<std::unique_ptr<MemoryHandle>> Registrar::register_memory(Connection& connection,
                                                                 const MemoryRegion& region) {
  auto handle = std::make_unique<MemoryHandle>();
  Status status = region.cuda ? register_gpu(connection, region, handle.get())
                              : register_host(connection, region, handle.get());
  if (!status) return forward_error(status);
  return handle;
}

Status Registrar::register_host(Connection& connection, const MemoryRegion& region,
                                MemoryHandle* handle) {
  for (size_t rail = 0; rail < connection.rails().size(); ++rail) {
    const std::shared_ptr<HcaContext>& hca = connection.rails()[rail].device().hca;
    MemorySource source{region.dmabuf_fd >= 0, region.dmabuf_fd, region.dmabuf_offset,
                        relaxed_ordering(*hca)};
    Result<ibv_mr*> mr = hca->registrations().acquire(range_of(region), source);
    if (!mr) return forward_error(mr);
    handle->add(rail, hca, *mr);
  }
  return {};
}

Status Registrar::register_gpu(Connection& connection, const MemoryRegion& region,
                               MemoryHandle* handle) {
  handle->host = false;
  const int gpu = gpu_of(region.address);
  const std::string pci_id = pci_id_of(gpu);
  for (size_t rail = 0; rail < connection.rails().size(); ++rail) {
    const std::shared_ptr<HcaContext>& hca = connection.rails()[rail].device().hca;
    const Target target{*hca, region, gpu, pci_id, relaxed_ordering(*hca)};
    Result<ibv_mr*> mr = register_direct(target);
    if (!mr) {
      handle->direct = false;
      return stage_instead(connection, target, mr.error(), handle);
    }
    handle->add(rail, hca, *mr);
  }
  if (!options_->gpudirect_limit.has_value()) return {};
  handle->direct_at_most = *options_->gpudirect_limit;
  Status staged = stage(connection, region, gpu, handle);
  if (!staged && staged.error().code == Code::kDeclined) {
    handle->direct_at_most = std::numeric_limits<size_t>::max();
    return {};
  }
  if (!staged) {
    staged.error().text = "GDR_NCCL_GDR_LIMIT is set, and staging failed: " + staged.error().text;
  }
  return staged;
}

// Of several rails, all or none are staged.
Status Registrar::stage_instead(Connection& connection, const Target& target, const Error& refusal,
                                MemoryHandle* handle) {
  std::string pair = target.pair();
  if (options_->strict) {
    return fail(refusal.code,
                pair + ": no GPUDirect, and GDR_NCCL_STRICT=1 forbids staging. " + refusal.text,
                refusal.sys_errno);
  }
  if (!options_->gpu_memory.staging) {
    return fail(
        refusal.code,
        pair + ": no GPUDirect, and GDR_NCCL_GPU_MEMORY leaves staging out. " + refusal.text,
        refusal.sys_errno);
  }
  handle->direct_at_most = 0;
  if (Status status = stage(connection, target.region, target.gpu, handle); !status) {
    status.error().text =
        pair + ": no GPUDirect. " + refusal.text + ". Nor can it be staged: " + status.error().text;
    return status;
  }
  counts_[static_cast<size_t>(RegistrationPath::kStaging)].fetch_add(1, std::memory_order_relaxed);
  if (log_once(pair)) {
    GDR_WARN(
        "%s: GPU memory is staged through host memory, which costs much of the bandwidth, "
        "and can stand still where CUDA_DEVICE_MAX_CONNECTIONS is below 32. %s. "
        "NCCL_NET_GDR_LEVEL=LOC makes NCCL use host buffers of its own, which need no copies. "
        "GDR_NCCL_STRICT=1 makes this an error",
        pair.c_str(), refusal.text.c_str());
  }
  return {};
}

// The ways that do without the host.
Result<ibv_mr*> Registrar::register_direct(const Target& target) {
  if (options_->gpu_memory.only_staging()) {
    return fail(Code::kInvalidUsage, "GDR_NCCL_GPU_MEMORY asks for that");
  }
  FailureList refusals;
  int error = 0;
  for (RegistrationPath way : {RegistrationPath::kDmaBuf, RegistrationPath::kPeermem}) {
    const bool dmabuf = way == RegistrationPath::kDmaBuf;
    const bool allowed = dmabuf ? options_->gpu_memory.dmabuf : options_->gpu_memory.peermem;
    if (!allowed) {
      refusals.add(way, disabled_by_user());
      continue;
    }
    Attempt attempt;
    attempt.way = way;
    attempt.bytes = target.region.bytes;
    Result<ibv_mr*> mr = dmabuf ? by_dmabuf(target, &attempt) : by_address(target);
    if (mr) {
      count_direct(target, way);
      return mr;
    }
    attempt.error = error = mr.error().sys_errno;
    refusals.add(way, explain(attempt, system_facts(target.hca, target.gpu, target.pci_id)));
  }
  return fail(Code::kSystem, refusals.text(), error);
}

// By the caller's dma-buf, or one that lives as long as this call.
Result<ibv_mr*> Registrar::by_dmabuf(const Target& target, Attempt* attempt) {
  const MemoryRegion& region = target.region;
  RegistrationCache& cache = target.hca.registrations();
  if (region.dmabuf_fd >= 0) {
    return cache.acquire(
        range_of(region),
        MemorySource{true, region.dmabuf_fd, region.dmabuf_offset, target.relaxed_ordering, true});
  }
  if (!target.hca.supports_dmabuf()) return fail(Code::kUnsupported, "", EOPNOTSUPP);
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(region.address);
  uintptr_t aligned = begin & ~(page - 1);
  size_t bytes = (begin + region.bytes - aligned + page - 1) & ~(page - 1);
  Result<UniqueFd> fd = cuda::export_dmabuf(reinterpret_cast<void*>(aligned), bytes);
  attempt->exporting = !fd.has_value();
  if (!fd) return forward_error(fd);
  return cache.acquire(MemoryRange{aligned, bytes},
                       MemorySource{true, fd->get(), 0, target.relaxed_ordering, true});
}

Result<ibv_mr*> Registrar::by_address(const Target& target) {
  return target.hca.registrations().acquire(
      range_of(target.region), MemorySource{false, -1, 0, target.relaxed_ordering, true});
}

void Registrar::count_direct(const Target& target, RegistrationPath way) {
  counts_[static_cast<size_t>(way)].fetch_add(1, std::memory_order_relaxed);
  std::string text = target.pair() + ": GPUDirect RDMA by " + name_of(way);
  if (log_once(text)) GDR_INFO(log::kInit | log::kNet, "%s", text.c_str());
}

Status Registrar::stage(Connection& connection, const MemoryRegion& region, int gpu,
                        MemoryHandle* handle) {
  if (gpu < 0) return fail(Code::kUnsupported, "CUDA does not know the memory");
  // NCCL registers its own buffers before it uses the connection, and users' buffers at any time.
  auto locking = connection.link().has_posted() ? BounceBufferPool::Locking::kRefused
                                                : BounceBufferPool::Locking::kAllowed;
  Result<std::shared_ptr<const BounceBuffer>> bounce_buffer =
      bounce_buffers_.get(gpu, reinterpret_cast<uintptr_t>(region.address), region.bytes, locking);
  if (!bounce_buffer) return forward_error(bounce_buffer);
  Result<std::shared_ptr<CopyStream>> stream = connection.copy_streams().get(gpu);
  if (!stream) return forward_error(stream);
  handle->staging = std::make_unique<Staging>(std::move(*bounce_buffer), std::move(*stream));
  const Staging& staging = *handle->staging;
  MemoryRange range{reinterpret_cast<uintptr_t>(staging.begin()), staging.bytes()};
  for (size_t rail = 0; rail < connection.rails().size(); ++rail) {
    const std::shared_ptr<HcaContext>& hca = connection.rails()[rail].device().hca;
    Result<ibv_mr*> mr =
        hca->registrations().acquire(range, MemorySource{false, -1, 0, relaxed_ordering(*hca)});
    if (!mr) return forward_error(mr);
    handle->add_staging(rail, hca, *mr);
  }
  return {};
}

std::string Registrar::counts_text() const {
  std::array<uint64_t, kRegistrationPathCount> counts;
  for (size_t way = 0; way < counts.size(); ++way) {
    counts[way] = counts_[way].load(std::memory_order_relaxed);
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
