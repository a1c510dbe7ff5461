// Copies of GPU memory for the software HCA: asynchronous, in order within a lane, and never behind
// a running kernel (NCCL's kernels spin on the GPU until these very copies arrive).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "softhca/gpu/gpu_ticket.h"
#include "softhca/gpu/window.h"

namespace softhca {

class GpuCopier {
 public:
  static constexpr uint32_t kLanesPerDevice = kGpuLanesPerDevice;
  static constexpr int kMaxDevices = 64;

  // Null while no libcuda is loaded in this process; never loads or initialises CUDA itself. Cheap
  // enough to ask at every registration; what it returns stays valid until the process ends.
  static GpuCopier* get();

  // The CUDA device that owns [addr, addr + bytes), or -1 when that is not memory of one device.
  // Registration time only.
  int device_of(const void* addr, size_t bytes);

  // Registration time: primary context, streams, and peer access with the devices prepared before.
  // Idempotent. The first call for a device may wait for its running kernels; later ones do not.
  gdr::Status prepare(int device);

  // Registration time: where copies of [addr, addr + bytes) find it, whichever GPU makes them.
  // `device` owns it and is prepared.
  gdr::Result<std::unique_ptr<GpuWindow>> open_window(int device, void* addr, size_t bytes);

  // Connection time: page-locks host memory (staging), without which copies are not asynchronous.
  // Needs a prepared device or a current context. Memory that is page-locked already is left as
  // it is. May wait for running kernels.
  gdr::Status pin_host(void* addr, size_t bytes);
  void unpin_host(void* addr);

  // A lane is an in-order stream on `device`, which must be prepared; spread QPs over lanes by
  // hint.
  uint32_t lane(int device, uint32_t hint);

  // Launches a copy between any host addresses and windows of this process. Never waits for a
  // kernel; host memory that is not page-locked may make it wait for the lane's earlier copies.
  // Thread-safe. An error condemns the lane: see failure().
  gdr::Result<GpuTicket> copy(uint32_t lane, void* dst, const void* src, size_t bytes);

  // True once the copy and all earlier ones of its lane are done and their bytes visible. False
  // for ever on a lane that failed.
  bool done(GpuTicket ticket);

  // Why a lane moves no more, if so. Calls the driver: ask rarely, when tickets stay undone.
  std::optional<gdr::Error> failure(uint32_t lane);

  // For a thread that the HCA owns: makes `device`'s context current in it for good, which spares
  // copy() two calls each.
  gdr::Status adopt_thread(int device);

  // For devices prepared later: copies in a context of our own instead of the application's primary
  // one. While an application's thread waits inside the driver for a kernel, it may hold the lock
  // of its context, and a copy that the kernel waits for would never be launched.
  void set_own_context(bool own);

  // For devices prepared later. kEvent serves where the driver refuses stream memory operations,
  // which prepare() also finds out by itself.
  void set_completion(GpuCompletion completion);
  // What a prepared device uses.
  GpuCompletion completion(int device) const;

  GpuCopier(const GpuCopier&) = delete;
  GpuCopier& operator=(const GpuCopier&) = delete;

 private:
  struct State;
  explicit GpuCopier(std::unique_ptr<State> state);
  ~GpuCopier() = delete;  // outlives main(): the HCA's threads may still copy at exit

  std::unique_ptr<State> state_;
};

}  // namespace softhca
