// One in-order stream of a device, and how it tells what is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "softhca/gpu/gpu_ticket.h"

namespace softhca {

// What a lane borrows from its device; all of it outlives the lane.
struct LaneSite {
  const gdr::cuda::Api* api;
  gdr::cuda::Context context;
  int device;
  uint64_t* done_word;                    // page-locked, zeroed, on a cache line of its own
  gdr::cuda::DevicePtr done_word_on_gpu;  // the same word as the GPU addresses it
};

class Lane {
 public:
  // More copies than this in flight are allowed; with events their completion is then seen late.
  static constexpr size_t kEvents = 256;

  // The device's context must be current. kStreamWrite falls to kEvent where the driver refuses it.
  static gdr::Result<std::unique_ptr<Lane>> create(const LaneSite& site, GpuCompletion wanted);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // The sequence number that done() will report. Numbers start at 1.
  gdr::Result<uint64_t> copy(void* dst, const void* src, size_t bytes);
  bool done(uint64_t sequence);
  std::optional<gdr::Error> failure();
  GpuCompletion completion() const { return completion_; }

 private:
  explicit Lane(const LaneSite& site) : site_(site) {}

  gdr::Status make_events();
  gdr::cuda::Rc mark(uint64_t sequence);
  bool event_done(uint64_t sequence);
  gdr::Error describe(const char* what, gdr::cuda::Rc rc) const;
  gdr::Error condemn(const char* what, gdr::cuda::Rc rc);

  const LaneSite site_;
  gdr::cuda::Stream stream_ = nullptr;
  GpuCompletion completion_ = GpuCompletion::kStreamWrite;
  std::vector<gdr::cuda::Event>
      events_;  // of sequence s: events_[s % kEvents]; later ones overwrite

  std::mutex launch_;     // numbers are issued in the stream's order
  uint64_t issued_ = 0;   // guarded by launch_
  gdr::Error condemned_;  // guarded by launch_; set once, before failed_

  alignas(64) std::atomic<bool> failed_{false};
  std::atomic<uint64_t> seen_{0};  // the highest number known done (kEvent only)
};

}  // namespace softhca
