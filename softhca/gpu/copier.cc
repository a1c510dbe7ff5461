#include "softhca/gpu/copier.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/unique_fd.h"
#include "drivers/cuda/cuda_api.h"
#include "softhca/gpu/driver_scope.h"
#include "softhca/gpu/find_libcuda.h"
#include "softhca/gpu/gpu_device.h"

namespace softhca {

namespace cuda = gdr::cuda;

struct GpuCopier::State {
  cuda::Api api;
  std::mutex preparing;
  bool own_context = false;                                    // guarded by preparing
  std::array<std::atomic<GpuDevice*>, kMaxDevices> devices{};  // each set once, never freed
  std::mutex pinning;
  std::unordered_set<void*> pinned;  // guarded by pinning; what pin_host() page-locked itself

  GpuDevice* device(int ordinal) const {
    if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
    return devices[ordinal].load(std::memory_order_acquire);
  }

  Lane* lane(uint32_t index) const {
    GpuDevice* owner = device(static_cast<int>(index / kLanesPerDevice));
    return owner == nullptr ? nullptr : &owner->lane(index % kLanesPerDevice);
  }

  // Returns a context for calls that concern all devices: that of a prepared device, else the
  // thread's own.
  cuda::Context any_context() const {
    for (const std::atomic<GpuDevice*>& slot : devices) {
      GpuDevice* device = slot.load(std::memory_order_acquire);
      if (device != nullptr) return device->context();
    }
    cuda::Context current = nullptr;
    return api.ctx_get_current(&current) == cuda::kSuccess ? current : nullptr;
  }
};

GpuCopier::GpuCopier(std::unique_ptr<State> state) : state_(std::move(state)) {}

GpuCopier* GpuCopier::get() {
  static std::atomic<GpuCopier*> instance{nullptr};
  GpuCopier* copier = instance.load(std::memory_order_acquire);
  if (copier != nullptr) return copier;
  static std::mutex finding;
  std::lock_guard<std::mutex> lock(finding);
  copier = instance.load(std::memory_order_acquire);
  if (copier != nullptr) return copier;
  std::optional<cuda::Api> api = find_libcuda();
  if (!api) return nullptr;
  auto state = std::make_unique<State>();
  state->api = *api;
  copier = new GpuCopier(std::move(state));
  instance.store(copier, std::memory_order_release);
  return copier;
}

int GpuCopier::device_of(const void* addr, size_t bytes) {
  const cuda::Api& api = state_->api;
  RelaxedCapture relaxed(api);
  auto owner = [&api](cuda::DevicePtr at) {
    int device = -1;
    cuda::device_of(api, at, &device);
    return device;
  };
  auto first = reinterpret_cast<cuda::DevicePtr>(addr);
  int ordinal = owner(first);
  if (ordinal < 0 || bytes == 0) return ordinal;
  // Callers register whole pages, and an allocation may end within its last page: the owner is
  // looked up at the start of that page.
  constexpr cuda::DevicePtr kPage = 4096;
  cuda::DevicePtr last_page = std::max(first, (first + bytes - 1) & ~(kPage - 1));
  return owner(last_page) == ordinal ? ordinal : -1;
}

gdr::Status GpuCopier::prepare(int device) {
  if (state_->device(device) != nullptr) return {};
  if (device < 0 || device >= kMaxDevices) {
    return gdr::fail(gdr::Code::kInvalidArgument, "no CUDA device " + std::to_string(device));
  }
  std::lock_guard<std::mutex> lock(state_->preparing);
  if (state_->device(device) != nullptr) return {};
  gdr::Result<std::unique_ptr<GpuDevice>> made =
      GpuDevice::create(state_->api, device, state_->own_context);
  if (!made) return gdr::forward_error(made);
  for (const std::atomic<GpuDevice*>& slot : state_->devices) {
    const GpuDevice* other = slot.load(std::memory_order_acquire);
    if (other != nullptr) (*made)->enable_peer_access(*other);
  }
  state_->devices[device].store(made->release(), std::memory_order_release);
  return {};
}

gdr::Result<std::unique_ptr<GpuWindow>> GpuCopier::open_window(int device, void* addr,
                                                               size_t bytes) {
  GpuDevice* owner = state_->device(device);
  if (owner == nullptr) {
    return gdr::fail(gdr::Code::kInvalidArgument,
                     "CUDA device " + std::to_string(device) + " is not prepared");
  }
  ContextScope scope(state_->api, owner->primary());
  if (scope.rc() != cuda::kSuccess) {
    return gdr::fail(gdr::Code::kSystem,
                     "cuCtxPushCurrent failed: " + cuda::error_name(state_->api, scope.rc()));
  }
  return GpuWindow::open(state_->api, device, addr, bytes);
}

bool GpuCopier::is_dmabuf_of(int device, uint64_t addr, int fd) {
  ContextScope scope(state_->api, state_->device(device)->primary());
  const off_t size = lseek(fd, 0, SEEK_END);
  struct stat files[3] = {};  // of the descriptor, and of two exports of the range
  gdr::UniqueFd exports[2];
  for (gdr::UniqueFd& made : exports) {
    int made_fd = -1;
    if (state_->api.mem_get_handle_for_address_range(&made_fd, addr, static_cast<size_t>(size),
                                                     cuda::kRangeHandleDmaBufFd,
                                                     0) == cuda::kSuccess) {
      made.reset(made_fd);
    }
  }
  if (fstat(fd, &files[0]) != 0 || fstat(exports[0].get(), &files[1]) != 0 ||
      fstat(exports[1].get(), &files[2]) != 0) {
    return false;
  }
  const bool identified = files[1].st_ino == files[2].st_ino;
  return files[0].st_dev == files[1].st_dev && (!identified || files[0].st_ino == files[1].st_ino);
}

gdr::Status GpuCopier::pin_host(void* addr, size_t bytes) {
  std::lock_guard<std::mutex> lock(state_->pinning);
  RelaxedCapture relaxed(state_->api);
  cuda::Context context = state_->any_context();
  if (context == nullptr) {
    return gdr::fail(gdr::Code::kInvalidUsage, "no CUDA context to page-lock host memory in");
  }
  ContextScope scope(state_->api, context);
  cuda::Rc rc = scope.rc();
  if (rc == cuda::kSuccess) {
    rc = state_->api.mem_host_register(addr, bytes,
                                       cuda::kHostRegisterPortable | cuda::kHostRegisterDeviceMap);
  }
  if (rc == cuda::kErrorHostMemoryAlreadyRegistered) return {};
  if (rc != cuda::kSuccess) {
    return gdr::fail(gdr::Code::kSystem, "cuMemHostRegister of " + std::to_string(bytes) +
                                             " bytes failed: " + cuda::error_name(state_->api, rc));
  }
  state_->pinned.insert(addr);
  return {};
}

void GpuCopier::unpin_host(void* addr) {
  std::lock_guard<std::mutex> lock(state_->pinning);
  if (state_->pinned.erase(addr) == 0) return;
  RelaxedCapture relaxed(state_->api);
  cuda::Context context = state_->any_context();
  if (context == nullptr) return;
  ContextScope scope(state_->api, context);
  // At exit the driver may be gone already, and the page-lock with it: nothing to report.
  if (scope.rc() == cuda::kSuccess) state_->api.mem_host_unregister(addr);
}

uint32_t GpuCopier::lane(int device, uint32_t hint) {
  return static_cast<uint32_t>(device) * kLanesPerDevice + hint % kLanesPerDevice;
}

gdr::Result<GpuTicket> GpuCopier::copy(uint32_t lane, void* dst, const void* src, size_t bytes) {
  Lane* stream = state_->lane(lane);
  if (stream == nullptr) {
    return gdr::fail(gdr::Code::kInvalidArgument,
                     "GPU lane " + std::to_string(lane) + " belongs to no prepared device");
  }
  gdr::Result<uint64_t> sequence = stream->copy(dst, src, bytes);
  if (!sequence) return gdr::forward_error(sequence);
  return GpuTicket{lane, *sequence};
}

bool GpuCopier::done(GpuTicket ticket) {
  Lane* stream = state_->lane(ticket.lane);
  return stream != nullptr && stream->done(ticket.sequence);
}

std::optional<gdr::Error> GpuCopier::failure(uint32_t lane) {
  Lane* stream = state_->lane(lane);
  if (stream != nullptr) return stream->failure();
  return gdr::Error{gdr::Code::kInvalidArgument,
                    "GPU lane " + std::to_string(lane) + " belongs to no prepared device"};
}

gdr::Status GpuCopier::adopt_thread(int device) {
  GpuDevice* owner = state_->device(device);
  if (owner == nullptr) {
    return gdr::fail(gdr::Code::kInvalidArgument,
                     "CUDA device " + std::to_string(device) + " is not prepared");
  }
  cuda::Rc rc = state_->api.ctx_set_current(owner->context());
  if (rc == cuda::kSuccess) return {};
  return gdr::fail(gdr::Code::kSystem,
                   "cuCtxSetCurrent failed: " + cuda::error_name(state_->api, rc));
}

void GpuCopier::set_own_context(bool own) {
  std::lock_guard<std::mutex> lock(state_->preparing);
  state_->own_context = own;
}

GpuCompletion GpuCopier::completion(int device) const {
  GpuDevice* owner = state_->device(device);
  return owner == nullptr ? GpuCompletion::kStreamWrite : owner->completion();
}

}  // namespace softhca
