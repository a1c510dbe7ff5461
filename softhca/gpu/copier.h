// Copies of GPU memory for the software HCA: asynchronous, in order within a lane, and never queued
// behind a running kernel (NCCL's kernels spin on the GPU until these very copies arrive).
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

  // Returns null while no libcuda is loaded in this process; it does not load or initialise CUDA.
  // It is cheap enough to be called at every registration. The result is valid until the process
  // ends.
  static GpuCopier* get();

  // Returns the CUDA device that owns [addr, addr + bytes), or -1 when that is not memory of one
  // device. For registration only: it calls the driver.
  int device_of(const void* addr, size_t bytes);

  // Prepares a device at registration: retains its primary context, creates its lanes, and enables
  // peer access with the devices prepared before. The first call for a device may wait for its
  // running kernels; later ones return at once. Fails with kInvalidArgument for a device that does
  // not exist, and with kSystem when the driver fails.
  gdr::Status prepare(int device);

  // Maps [addr, addr + bytes) at registration, so that copies by any GPU can use it. `device` owns
  // the memory and is prepared.
  gdr::Result<std::unique_ptr<GpuWindow>> open_window(int device, void* addr, size_t bytes);

  // Returns false when the descriptor is not a dma-buf that begins at `addr`. `device` owns the
  // memory and is prepared. A driver that makes a new object at every export, as NVIDIA's does,
  // only shows that the descriptor is a dma-buf and as long as one of that range.
  bool is_dmabuf_of(int device, uint64_t addr, int fd);

  // Page-locks host memory (the staging area): CUDA copies of other host memory are not
  // asynchronous. Needs a prepared device or a current context. Memory that is page-locked already
  // is left as it is. May wait for running kernels, so it belongs to the set-up of connections.
  gdr::Status pin_host(void* addr, size_t bytes);
  void unpin_host(void* addr);

  // Returns a lane, an in-order stream on `device`, which must be prepared. Different hints spread
  // QPs over the device's lanes.
  uint32_t lane(int device, uint32_t hint);

  // Starts a copy between any host addresses and windows of this process. It does not wait for a
  // kernel; with host memory that is not page-locked it may wait for the lane's earlier copies.
  // Thread-safe. After an error other than a refused address the lane is unusable: see failure().
  gdr::Result<GpuTicket> copy(uint32_t lane, void* dst, const void* src, size_t bytes);

  // Returns true once the copy and all earlier ones of its lane are complete and their bytes
  // visible. On a lane that has failed it stays false.
  bool done(GpuTicket ticket);

  // Returns the error of a lane that has failed. It calls the driver: call it rarely, when a ticket
  // is not done for long.
  std::optional<gdr::Error> failure(uint32_t lane);
  // How often to poll done() between two calls of failure().
  static constexpr uint32_t kPollsPerFailureCheck = 1 << 14;

  // Makes the context of `device` current in the calling thread for good, which must be one that
  // the HCA owns. It saves two driver calls in every copy().
  gdr::Status adopt_thread(int device);

  // Makes devices prepared later copy in a context of their own instead of the application's
  // primary one. A thread of the application that waits inside the driver for a kernel may hold the
  // lock of its context; a copy that the kernel waits for then deadlocks in the primary context.
  void set_own_context(bool own);

  // Returns what a prepared device uses: kEvent where the driver refuses stream memory operations.
  GpuCompletion completion(int device) const;

  GpuCopier(const GpuCopier&) = delete;
  GpuCopier& operator=(const GpuCopier&) = delete;

 private:
  struct State;
  explicit GpuCopier(std::unique_ptr<State> state);
  ~GpuCopier() = delete;  // the engine may still copy while the process exits

  std::unique_ptr<State> state_;
};

}  // namespace softhca
