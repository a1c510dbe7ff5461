#include "softhca/gpu/gpu_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "softhca/gpu/driver_scope.h"

namespace softhca {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kWordStride =
    128;  // bytes: the adjacent-line prefetcher fetches cache lines in pairs
static_assert(kWordStride * kGpuLanesPerDevice <= kPageBytes);

}  // namespace

namespace cuda = gdr::cuda;

gdr::Result<std::unique_ptr<GpuDevice>> GpuDevice::create(const cuda::Api& api, int ordinal,
                                                          bool own_context) {
  std::unique_ptr<GpuDevice> device(new GpuDevice(api, ordinal));
  gdr::Status status = device->take_context(own_context);
  if (!status) return gdr::forward_error(status);
  ContextScope scope(api, device->context_);
  if (scope.rc() == cuda::kSuccess) {
    status = device->map_done_words();
    if (status) status = device->make_lanes();
  } else {
    status = device->failed("cuCtxPushCurrent", scope.rc());
  }
  if (!status) return gdr::forward_error(status);
  return device;
}

GpuDevice::~GpuDevice() {
  if (context_ != nullptr) {
    ContextScope scope(api_, context_);
    for (std::unique_ptr<Lane>& lane : lanes_) lane.reset();
    if (page_on_gpu_ != 0) api_.mem_host_unregister(page_);
  }
  if (page_ != nullptr) munmap(page_, kPageBytes);
  if (context_ != nullptr && context_ != primary_) api_.ctx_destroy(context_);
  if (primary_ != nullptr) api_.primary_ctx_release(device_);
}

gdr::Status GpuDevice::take_context(bool own) {
  RelaxedCapture relaxed(api_);
  cuda::Rc rc = api_.device_get(&device_, ordinal_);
  if (rc != cuda::kSuccess) return failed("cuDeviceGet", rc);
  rc = api_.primary_ctx_retain(&primary_, device_);
  if (rc != cuda::kSuccess) {
    primary_ = nullptr;
    return failed("cuDevicePrimaryCtxRetain", rc);
  }
  if (!own) {
    context_ = primary_;
    return {};
  }
  rc = api_.ctx_create(&context_, 0, device_);
  if (rc != cuda::kSuccess) {
    context_ = nullptr;
    return failed("cuCtxCreate", rc);
  }
  cuda::Context created = nullptr;
  api_.ctx_pop_current(&created);  // cuCtxCreate made it current in the application's thread
  return {};
}

gdr::Status GpuDevice::map_done_words() {
  void* page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return gdr::fail_errno(gdr::Code::kSystem, "mmap of a page of completion words", errno);
  }
  page_ = page;
  cuda::Rc rc = api_.mem_host_register(page_, kPageBytes,
                                       cuda::kHostRegisterPortable | cuda::kHostRegisterDeviceMap);
  if (rc != cuda::kSuccess) return failed("cuMemHostRegister", rc);
  rc = api_.mem_host_get_device_pointer(&page_on_gpu_, page_, 0);
  if (rc == cuda::kSuccess) return {};
  api_.mem_host_unregister(page_);
  page_on_gpu_ = 0;
  return failed("cuMemHostGetDevicePointer", rc);
}

gdr::Status GpuDevice::make_lanes() {
  GpuCompletion wanted = GpuCompletion::kStreamWrite;
  int wide = 0;
  cuda::Rc rc = api_.device_get_attribute(&wide, cuda::kDeviceCanUse64BitStreamMemOps, device_);
  if (rc != cuda::kSuccess || wide == 0) wanted = GpuCompletion::kEvent;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    auto* word = reinterpret_cast<uint64_t*>(static_cast<char*>(page_) + i * kWordStride);
    LaneResources lane_resources{&api_, context_, ordinal_, word, page_on_gpu_ + i * kWordStride};
    gdr::Result<std::unique_ptr<Lane>> lane = Lane::create(lane_resources, wanted);
    if (!lane) return gdr::forward_error(lane);
    lanes_[i] = std::move(*lane);
  }
  return {};
}

void GpuDevice::enable_peer_access(const GpuDevice& other) const {
  enable_access_to(other);
  other.enable_access_to(*this);
}

void GpuDevice::enable_access_to(const GpuDevice& peer) const {
  ContextScope scope(api_, context_);
  int can = 0;
  if (scope.rc() != cuda::kSuccess) return;
  if (api_.device_can_access_peer(&can, device_, peer.device_) != cuda::kSuccess || can == 0)
    return;
  api_.ctx_enable_peer_access(peer.context_, 0);  // "already enabled" is not an error here
  if (peer.context_ != peer.primary_) api_.ctx_enable_peer_access(peer.primary_, 0);
}

gdr::Status GpuDevice::failed(const char* what, cuda::Rc rc) const {
  return gdr::fail(gdr::Code::kSystem, std::string(what) +
                                           " failed: " + cuda::error_name(api_, rc) +
                                           " on CUDA device " + std::to_string(ordinal_));
}

}  // namespace softhca
