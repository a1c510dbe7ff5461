// A CUDA device that is prepared for copies: its contexts and its lanes.
#pragma once

#include <array>
#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "softhca/gpu/gpu_ticket.h"
#include "softhca/gpu/lane.h"

namespace softhca {

class GpuDevice {
 public:
  // Without a context of its own it copies in the application's primary one.
  static gdr::Result<std::unique_ptr<GpuDevice>> create(const gdr::cuda::Api& api, int ordinal,
                                                        bool own_context);
  // Runs only for a device whose create() failed: a prepared one lives as long as the process.
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  // Enables access to each other's memory where the machine supports it (cuCtxEnablePeerAccess).
  // Elsewhere the driver copies between the devices through the host, so an error is ignored.
  void enable_peer_access(const GpuDevice& other) const;

  Lane& lane(uint32_t index) { return *lanes_[index]; }
  gdr::cuda::Context context() const { return context_; }
  // The application's context, in which its memory is known.
  gdr::cuda::Context primary() const { return primary_; }
  GpuCompletion completion() const { return lanes_[0]->completion(); }

 private:
  GpuDevice(const gdr::cuda::Api& api, int ordinal) : api_(api), ordinal_(ordinal) {}

  gdr::Status take_context(bool own);
  gdr::Status map_done_words();
  gdr::Status make_lanes();
  void enable_access_to(const GpuDevice& peer) const;
  gdr::Status failed(const char* what, gdr::cuda::Rc rc) const;

  const gdr::cuda::Api& api_;
  const int ordinal_;
  gdr::cuda::Device device_ = 0;
  gdr::cuda::Context primary_ = nullptr;  // the application's, retained
  gdr::cuda::Context context_ = nullptr;  // of the copies: the primary one, or one of our own
  void* page_ = nullptr;                  // page-locked; holds the done words of the lanes
  gdr::cuda::DevicePtr page_on_gpu_ = 0;
  std::array<std::unique_ptr<Lane>, kGpuLanesPerDevice> lanes_;
};

}  // namespace softhca
