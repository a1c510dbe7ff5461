// The HCA's own mapping of CUDA memory, which every GPU of the process can reach. Memory made by
// the virtual-memory API (NCCL's is) belongs to the GPUs that its owner named and no others, so a
// copy between two GPUs would be refused; the owner's own mapping is left as it is.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"

namespace softhca {

class GpuWindow {
 public:
  // `device` owns [address, address + bytes) and its context is current.
  static gdr::Result<std::unique_ptr<GpuWindow>> open(const gdr::cuda::Api& api, int device,
                                                      void* address, size_t bytes);
  ~GpuWindow();
  GpuWindow(const GpuWindow&) = delete;
  GpuWindow& operator=(const GpuWindow&) = delete;

  // Where copies find the first byte: `address` itself for memory that was not made by the
  // virtual-memory API.
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
