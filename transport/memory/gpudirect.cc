#include "transport/memory/gpudirect.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "drivers/cuda/cuda_driver.h"

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

std::string mebibytes(uint64_t bytes) {
  constexpr uint64_t kMebi = uint64_t{1} << 20;
  return std::to_string((bytes + kMebi / 2) / kMebi) + " MiB";
}

std::string error_text(int error) {
  return std::string(std::strerror(error)) + ", errno " + std::to_string(error);
}

TextAndFix file_descriptor_limit() {
  return {"this process has no file descriptor left",
          "raise the limit (ulimit -n; LimitNOFILE= of systemd and Slurm)"};
}

TextAndFix failed_export(const SystemFacts& facts) {
  if (facts.file_descriptors_exhausted) return file_descriptor_limit();
  if (facts.driver_supports_dmabuf == false) {
    return {"the CUDA driver exports no dma-buf of this GPU",
            "use NVIDIA's open kernel modules of driver 515 or newer, with Linux 5.12 or newer"};
  }
  return {"the CUDA driver exports no dma-buf of this allocation",
          "allocate with cudaMalloc, ncclMemAlloc, or cuMemCreate with gpuDirectRDMACapable set; a "
          "pool of cudaMallocAsync cannot be exported"};
}

TextAndFix bar1_full(const Attempt& attempt, const SystemFacts& facts) {
  const std::string size =
      facts.bar1_bytes ? "of " + mebibytes(*facts.bar1_bytes) : "of unknown size";
  return {"no room for " + mebibytes(attempt.bytes) + " more in the GPU's BAR1 " + size + " (" +
              mebibytes(facts.registered_bytes) + " are registered here; " +
              error_text(attempt.error) + ")",
          "let BAR1 cover the GPU's memory (Resizable BAR and Above 4G Decoding in the firmware, "
          "nvidia-smi -q -d MEMORY shows it), or register less: NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS"};
}

// An HCA that takes GPU memory out of BAR1 finds no room there with either errno value.
bool exceeds_bar1(const Attempt& attempt, const SystemFacts& facts) {
  return (attempt.error == ENOMEM || attempt.error == EINVAL) && facts.bar1_bytes &&
         facts.registered_bytes + attempt.bytes > *facts.bar1_bytes;
}

TextAndFix memory_lock(uint64_t limit, int error) {
  return {"the memory-lock limit is " + std::to_string(limit / 1024) + " KiB (" +
              error_text(error) + ")",
          "raise it (ulimit -l unlimited; LimitMEMLOCK=infinity of systemd and Slurm; "
          "--ulimit memlock=-1 or IPC_LOCK of containers); where that does not help, the GPU's "
          "BAR1 is full"};
}

TextAndFix failed_peermem(const Attempt& attempt, const SystemFacts& facts) {
  const std::string error = " (" + error_text(attempt.error) + ")";
  if (facts.module.kind == PeermemKind::kNvPeerMem) {
    return {"nv_peer_mem, which is out of support, rejected the address" + error,
            "unload it, and modprobe nvidia-peermem, on the host where this is a container"};
  }
  if (is_present(facts.module)) {
    return {"nvidia-peermem is loaded and rejected the address" + error,
            "see the kernel's log; after an update of the HCA's driver, rebuild and reload "
            "nvidia-peermem"};
  }
  const bool known = facts.module.kind == PeermemKind::kAbsent;
  return {(known ? "the kernel module nvidia-peermem is not loaded"
                 : "whether nvidia-peermem is loaded is unknown, as there is no /sys/module") +
              error,
          "modprobe nvidia-peermem, on the host where this is a container"};
}

TextAndFix cause_of(const Attempt& attempt, const SystemFacts& facts) {
  const int error = attempt.error;
  if (attempt.export_failed) return failed_export(facts);
  if (error == EMFILE || error == ENFILE) return file_descriptor_limit();
  if (exceeds_bar1(attempt, facts)) return bar1_full(attempt, facts);
  if (error == ENOMEM) {
    return facts.memory_lock_limit ? memory_lock(*facts.memory_lock_limit, error)
                                   : bar1_full(attempt, facts);
  }
  if (attempt.path == RegistrationPath::kPeermem) {
    if (error == EFAULT || error == EINVAL) return failed_peermem(attempt, facts);
  } else if (error == EOPNOTSUPP || error == EPROTONOSUPPORT || error == ENOSYS) {
    return {"the kernel or the HCA's driver registers no dma-buf",
            "use Linux 5.12 or newer, update rdma-core and the HCA's driver, or load "
            "nvidia-peermem"};
  }
  return {error_text(error), ""};
}

TextAndFix disabled_by_user(RegistrationPath path) {
  return {std::string(name_of(path)) + ": disabled by GDR_NCCL_GPU_MEMORY or NCCL_DMABUF_ENABLE",
          ""};
}

void append_once(std::string* list, const std::string& text, const char* separator) {
  if (text.empty() || list->find(text) != std::string::npos) return;
  if (!list->empty()) *list += separator;
  *list += text;
}

}  // namespace

Result<DirectRegistration> register_direct(const HcaContext& hca, const MemoryRegion& region,
                                           const GpuIdentity& gpu, PciOrdering ordering,
                                           const RegistrationPaths& allowed) {
  std::vector<TextAndFix> failures;
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
  std::vector<TextAndFix> failures;
  for (const Attempt& attempt : attempts) {
    const bool tried = allowed.includes(attempt.path);
    failures.push_back(tried ? explain(attempt, facts) : disabled_by_user(attempt.path));
  }
  return joined_text(failures);
}

TextAndFix explain(const Attempt& attempt, const SystemFacts& facts) {
  TextAndFix cause = cause_of(attempt, facts);
  cause.text = std::string(name_of(attempt.path)) + ": " + cause.text;
  return cause;
}

std::string joined_text(const std::vector<TextAndFix>& failures, const std::string& last_fix) {
  std::string causes, fixes;
  for (const TextAndFix& failure : failures) {
    append_once(&causes, failure.text, "; ");
    append_once(&fixes, failure.fix, "; or: ");
  }
  append_once(&fixes, last_fix, "; or: ");
  return fixes.empty() ? causes : causes + ". Fix: " + fixes;
}

}  // namespace gdr::transport
