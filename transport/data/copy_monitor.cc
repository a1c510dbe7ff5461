#include "transport/data/copy_monitor.h"

namespace gdr::transport {
namespace {

constexpr char kInDriver[] =
    ", its thread inside a copy call of the CUDA driver: perhaps another thread of the process "
    "waits there (cudaFree, cudaHostRegister, loading a module) for the kernel of this very "
    "collective; GPUDirect, or no such call while collectives run, avoids it";
constexpr char kAwaitsCopy[] =
    ", its copy between GPU and host memory launched but not complete: perhaps its queue is held "
    "by a copy that the process has put behind this very collective, in another stream; GPUDirect "
    "or NCCL's own host buffers (NCCL_NET_GDR_LEVEL=LOC) avoid it, "
    "CUDA_DEVICE_MAX_CONNECTIONS=32 makes it rarer";

}  // namespace

// A thread that is in the same call as at the last tick does not just pass through it.
const char* CopyMonitor::likely_cause() const {
  const uint64_t crossings = crossings_.load(std::memory_order_relaxed);
  if (crossings % 2 == 1 && crossings == seen_crossings_) return kInDriver;
  return awaits_copy_.load(std::memory_order_relaxed) ? kAwaitsCopy : "";
}

}  // namespace gdr::transport
