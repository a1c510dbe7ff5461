#include "transport/data/copy_monitor.h"

namespace gdr::transport {
namespace {

constexpr char kInDriver[] =
    ", its thread inside a copy call of the CUDA driver: possibly another thread of the process is "
    "in a CUDA call that waits for the kernel of this collective (cudaFree, cudaHostRegister, "
    "loading a module) and delays all others. Fix: use GPUDirect, or make no such call while "
    "collectives run";
constexpr char kAwaitsCopy[] =
    ", its copy between GPU and host memory launched but not complete: possibly it shares a "
    "hardware queue with a copy that the process has enqueued behind this collective in another "
    "stream. Fix: use GPUDirect or NCCL's own host buffers (NCCL_NET_GDR_LEVEL=LOC); "
    "CUDA_DEVICE_MAX_CONNECTIONS=32 makes it rarer";

}  // namespace

// A thread that is in the same call as at the last tick does not just pass through it.
const char* CopyMonitor::likely_cause() const {
  const uint64_t crossings = crossings_.load(std::memory_order_relaxed);
  if (crossings % 2 == 1 && crossings == seen_crossings_) return kInDriver;
  return awaits_copy_.load(std::memory_order_relaxed) ? kAwaitsCopy : "";
}

}  // namespace gdr::transport
