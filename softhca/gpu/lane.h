// One in-order stream of a device, and the observation of its completed copies.
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

// What a lane uses of its device; all of it outlives the lane.
struct LaneResources {
  const gdr::cuda::Api* api;
  gdr::cuda::Context context;
  int device;
  uint64_t* done_word;                    // page-locked, zeroed, on a cache line of its own
  gdr::cuda::DevicePtr done_word_on_gpu;  // the same word as the GPU addresses it
};

class Lane {
 public:
  // Events of a lane with kEvent. More copies than this may be in progress; completion of the older
  // ones is then seen late, with that of a newer copy.
  static constexpr size_t kEvents = 256;

  // The device's context must be current. Falls back from kStreamWrite to kEvent where the driver
  // refuses stream memory operations.
  static gdr::Result<std::unique_ptr<Lane>> create(const LaneResources& resources,
                                                   GpuCompletion wanted);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Starts a copy. Returns its sequence number, from 1 on.
  gdr::Result<uint64_t> copy(void* dst, const void* src, size_t bytes);
  // Returns true once the copy of that number, and with it all earlier ones, are complete.
  bool done(uint64_t sequence);
  // Returns why the lane is unusable, if it is. Calls the driver.
  std::optional<gdr::Error> failure();
  GpuCompletion completion() const { return completion_; }

 private:
  explicit Lane(const LaneResources& resources) : resources_(resources) {}

  gdr::Status make_events();
  gdr::cuda::Rc mark(uint64_t sequence);
  bool event_done(uint64_t sequence);
  gdr::Error describe(const char* what, gdr::cuda::Rc rc) const;
  gdr::Error condemn(const char* what, gdr::cuda::Rc rc);

  const LaneResources resources_;
  gdr::cuda::Stream stream_ = nullptr;
  GpuCompletion completion_ = GpuCompletion::kStreamWrite;
  std::vector<gdr::cuda::Event>
      events_;  // kEvent: copy s records events_[s % kEvents], over that of copy s - kEvents

  std::mutex launch_;     // numbers are issued in the stream's order
  uint64_t issued_ = 0;   // guarded by launch_
  gdr::Error condemned_;  // guarded by launch_; set once, before failed_

  alignas(64) std::atomic<bool> failed_{false};
  std::atomic<uint64_t> seen_{0};  // the highest number known done (kEvent only)
};

}  // namespace softhca
