// A CUDA device made ready for copies: its primary context and its lanes.
#pragma once

#include <array>
#include <memory>

#include "base/cuda_api.h"
#include "base/result.h"
#include "softhca/gpu/copier.h"
#include "softhca/gpu/lane.h"

namespace softhca {

class GpuDevice {
 public:
  static gdr::Result<std::unique_ptr<GpuDevice>> create(const gdr::cuda::Api& api, int ordinal,
                                                        GpuCompletion wanted);
  // Only for a device whose create() did not finish: a ready one lives as long as the process.
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  // Lets both devices reach each other's memory where the machine can; otherwise the driver takes
  // copies between them through the host. Best effort.
  void befriend(const GpuDevice& other) const;

  Lane& lane(uint32_t index) { return *lanes_[index]; }
  gdr::cuda::Context context() const { return context_; }
  GpuCompletion completion() const { return lanes_[0]->completion(); }

 private:
  GpuDevice(const gdr::cuda::Api& api, int ordinal) : api_(api), ordinal_(ordinal) {}

  gdr::Status retain_context();
  gdr::Status map_done_words();
  gdr::Status make_lanes(GpuCompletion wanted);
  void enable_access_to(const GpuDevice& peer) const;
  gdr::Status failed(const char* what, gdr::cuda::Rc rc) const;

  const gdr::cuda::Api& api_;
  const int ordinal_;
  gdr::cuda::Device device_ = 0;
  gdr::cuda::Context context_ = nullptr;  // retained
  void* page_ = nullptr;                  // page-locked; holds one done word per cache line
  gdr::cuda::DevicePtr page_on_gpu_ = 0;
  std::array<std::unique_ptr<Lane>, GpuCopier::kLanesPerDevice> lanes_;
};

}  // namespace softhca
