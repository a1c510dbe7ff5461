#include "plugin/bar1_room.h"

#include <string>

namespace gdr::plugin {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;

std::string mebibytes(uint64_t bytes) { return std::to_string(bytes / kMebi) + " MiB"; }

Bar1Shortage shortage_of(const topology::Gpu& gpu, uint64_t needed) {
  const bool withheld = gpu.bar1->bytes < needed;
  const std::string effect =
      withheld ? "GPUDirect RDMA is not offered to NCCL, which keeps its buffers in host memory"
               : "Their registration may fail, which ends the job";
  return {{FindingKind::kBar1Room, Severity::kWarning, "GPU " + gpu.bdf.to_string(),
           mebibytes(gpu.bar1->free) + " of its BAR1 of " + mebibytes(gpu.bar1->bytes) +
               " are free, and NCCL's buffers for one communicator need " +
               mebibytes(needed + kMebi - 1) + " at least. " + effect,
           "let BAR1 cover the GPU's memory (Resizable BAR and Above 4G Decoding in the firmware), "
           "or end what else uses it (nvidia-smi -q -d MEMORY shows it), or set NCCL_BUFFSIZE "
           "lower, NCCL_NET_GDR_READ=0 or NCCL_NET_GDR_LEVEL=LOC"},
          withheld};
}

}  // namespace

uint64_t least_of_communicator(const config::Options& options) {
  constexpr uint64_t kChannels = 2;
  // Elements per thread, threads, steps and bytes of an element.
  constexpr uint64_t kLl128Bytes = uint64_t{120} * 640 * 8 * 8;
  const uint64_t directions = options.gdr_read == 0 ? 1 : 2;
  return kChannels * directions * (static_cast<uint64_t>(options.buffer_bytes) + kLl128Bytes);
}

std::optional<Bar1Shortage> short_bar1(const topology::Machine& machine,
                                       const config::Options& options) {
  const uint64_t needed = least_of_communicator(options);
  std::optional<Bar1Shortage> found;
  for (const topology::Gpu& gpu : machine.gpus) {
    if (!gpu.bar1 || gpu.bar1->bytes == 0 || gpu.c2c_links > 0) continue;
    if (gpu.bar1->bytes < needed) return shortage_of(gpu, needed);
    if (gpu.bar1->free < needed && !found) found = shortage_of(gpu, needed);
  }
  return found;
}

}  // namespace gdr::plugin
