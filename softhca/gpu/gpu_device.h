// A CUDA device made ready for copies: its primary context and its lanes.
#pragma once

#include <array>
#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "softhca/gpu/gpu_ticket.h"
#include "softhca/gpu/lane.h"

namespace softhca {

// How a device is to be made ready.
struct GpuWish {
  GpuCompletion completion = GpuCompletion::kStreamWrite;
  bool own_context = false;  // else the application's primary one
};

class GpuDevice {
 public:
  static gdr::Result<std::unique_ptr<GpuDevice>> create(const gdr::cuda::Api& api, int ordinal,
                                                        const GpuWish& wish);
  // Only for a device whose create() did not finish: a ready one lives as long as the process.
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  // Lets both devices reach each other's memory where the machine can; otherwise the driver takes
  // copies between them through the host. Best effort.
  void befriend(const GpuDevice& other) const;

  Lane& lane(uint32_t index) { return *lanes_[index]; }
  gdr::cuda::Context context() const { return context_; }
  // The application's, in which its memory is known.
  gdr::cuda::Context primary() const { return primary_; }
  GpuCompletion completion() const { return lanes_[0]->completion(); }

 private:
  GpuDevice(const gdr::cuda::Api& api, int ordinal) : api_(api), ordinal_(ordinal) {}

  gdr::Status take_context(bool own);
  gdr::Status map_done_words();
  gdr::Status make_lanes(GpuCompletion wanted);
  void enable_access_to(const GpuDevice& peer) const;
  gdr::Status failed(const char* what, gdr::cuda::Rc rc) const;

  const gdr::cuda::Api& api_;
  const int ordinal_;
  gdr::cuda::Device device_ = 0;
  gdr::cuda::Context primary_ = nullptr;  // the application's, retained
  gdr::cuda::Context context_ = nullptr;  // of the copies: the same, or our own
  void* page_ = nullptr;                  // page-locked; holds one done word per cache line
  gdr::cuda::DevicePtr page_on_gpu_ = 0;
  std::array<std::unique_ptr<Lane>, kGpuLanesPerDevice> lanes_;
};

}  // namespace softhca
