// The HCA's own mapping of CUDA memory, which every GPU of the process can access. Memory that was
// allocated with the virtual-memory API (as NCCL's is) is accessible only to the GPUs that its
// owner named in cuMemSetAccess, so that a copy between two GPUs fails. The window maps the same
// physical memory a second time with access for all; the owner's mapping is not changed.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"

namespace softhca {

class GpuWindow {
 public:
  // `device` owns [address, address + bytes) and its context is current. Fails with kSystem.
  static gdr::Result<std::unique_ptr<GpuWindow>> open(const gdr::cuda::Api& api, int device,
                                                      void* address, size_t bytes);
  ~GpuWindow();
  GpuWindow(const GpuWindow&) = delete;
  GpuWindow& operator=(const GpuWindow&) = delete;

  // Returns the address that copies use for the first byte: the original one for memory that was
  // not allocated with the virtual-memory API.
  void* address() const { return address_; }

 private:
  struct Segment {  // one physical allocation
    gdr::cuda::AllocationHandle handle;
    size_t bytes;
  };
  using Status = gdr::Status;

  GpuWindow(const gdr::cuda::Api& api, void* address) : api_(api), address_(address) {}
  Status retain_segments(gdr::cuda::DevicePtr first, gdr::cuda::DevicePtr end);
  Status map_segments();
  Status grant_access(int device);
  size_t total_bytes() const;

  const gdr::cuda::Api& api_;
  void* address_;
  std::vector<Segment> segments_;
  gdr::cuda::DevicePtr reserved_ = 0;
  size_t mapped_segments_ = 0;
};

}  // namespace softhca
