// The memory that a rank sends from and receives into: how --memory names it, how it is allocated,
// and how it is registered with the plugin by the same calls that NCCL makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "drivers/cuda/gpu_workspace.h"
#include "tools/net/deleters.h"

namespace gdr::tools {

// One entry of --memory.
struct MemorySpec {
  bool cuda = false;  // false: host memory
  int device = -1;    // CUDA device; -1: the rank modulo the number of devices

  bool operator==(const MemorySpec&) const = default;
};

// Parses --memory. The grammar is ENTRY or ENTRY,ENTRY, where ENTRY is "host", "cuda" or "cuda:N".
// One entry holds for all ranks. Of two, the first is the sender's in `perf sendrecv` and the
// second the receiver's: "cuda:0,host" sends from GPU 0 into host memory.
Result<std::vector<MemorySpec>> parse_memory_specs(const std::string& text);

// Returns the entry for a rank: ranks take the entries in turn.
inline const MemorySpec& spec_of(int rank, const std::vector<MemorySpec>& specs) {
  return specs[static_cast<size_t>(rank) % specs.size()];
}

// Memory for messages: of the host or of a CUDA device.
class Buffer {
 public:
  // Allocates page-aligned host memory and touches it, so that no page fault occurs in a
  // measurement.
  static Result<Buffer> host(size_t bytes);
  // Allocates zeroed memory of the GPU, which must outlive the buffer. It consists of whole 64 KiB
  // pages, so that it can be exported as a dma-buf.
  static Result<Buffer> cuda(const cuda::GpuWorkspace& gpu, size_t bytes);

  char* data() const { return data_; }  // a device address for GPU memory
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  Buffer() = default;
  std::unique_ptr<char, Free> host_;
  std::optional<cuda::GpuWorkspace::Memory> device_;
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

// The source of a rank's buffers: host memory or one CUDA device.
class RankMemory {
 public:
  // For CUDA, this loads the driver and makes the device's primary context current in the calling
  // thread for the rest of its life, as it is in NCCL's proxy threads. Call it before the plugin's
  // init: under NCCL, too, CUDA is initialised first.
  static Result<RankMemory> open(const MemorySpec& spec, int rank);

  // Null for host memory.
  const cuda::GpuWorkspace* gpu() const { return gpu_ ? &*gpu_ : nullptr; }
  // True when the GPU's driver can export its memory as a dma-buf.
  bool exports_dmabuf() const { return exports_dmabuf_; }
  // For people: "host" or "cuda:0 (0000:1a:00.0)", with the GPU's PCI address.
  const std::string& text() const { return text_; }

  // The buffer must not outlive this object, which owns the CUDA context.
  Result<Buffer> allocate(size_t bytes) const;

 private:
  RankMemory() = default;
  std::optional<cuda::GpuWorkspace> gpu_;
  bool exports_dmabuf_ = false;
  std::string text_ = "host";
};

// How a plugin registers a buffer: regMr with NCCL_PTR_HOST, regMr with NCCL_PTR_CUDA, or
// regMrDmaBuf.
enum class RegisteredBy : uint8_t { kHostAddress, kDeviceAddress, kDmaBuf };

// Returns "host address", "device address" or "dma-buf". Reports of --json contain these texts.
const char* describe(RegisteredBy by);

// Formats ncclNetProperties' ptrSupport bits: "HOST|CUDA|DMABUF".
std::string ptr_support_text(int bits);

// Chooses for CUDA memory as NCCL does (src/transport/net.cc): dma-buf where ptr_support has that
// bit and the GPU's driver exports, else the device address where ptr_support has the CUDA bit,
// else an error with the missing prerequisite. `device` is the plugin's device, for the error's
// text.
Result<RegisteredBy> choose_for_cuda(const std::string& device, int ptr_support,
                                     bool exports_dmabuf);

// Registers the buffer with one comm.
Result<Registration> register_memory(Net& net, void* comm, const Buffer& buffer, RegisteredBy by);

}  // namespace gdr::tools
