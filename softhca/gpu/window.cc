#include "softhca/gpu/window.h"

#include <string>

namespace softhca {

namespace cuda = gdr::cuda;

namespace {

tl::unexpected<gdr::Error> failed(const cuda::Api& api, const char* call, cuda::Rc rc) {
  return gdr::fail(gdr::Code::kSystem, std::string(call) + " failed: " + cuda::error_name(api, rc));
}

}  // namespace

gdr::Result<std::unique_ptr<GpuWindow>> GpuWindow::open(const cuda::Api& api, int device,
                                                        void* address, size_t bytes) {
  std::unique_ptr<GpuWindow> window(new GpuWindow(api, address));
  cuda::AllocationHandle handle = 0;
  if (api.mem_retain_allocation_handle(&handle, address) != cuda::kSuccess) return window;
  api.mem_release(handle);

  auto first = reinterpret_cast<cuda::DevicePtr>(address);
  cuda::DevicePtr base = 0;
  size_t size = 0;
  cuda::Rc rc = api.mem_get_address_range(&base, &size, first);
  if (rc != cuda::kSuccess) return failed(api, "cuMemGetAddressRange", rc);
  Status status = window->retain_segments(base, first + bytes);
  if (status) status = window->map_segments();
  if (status) status = window->grant_access(device);
  if (!status) return gdr::forward_error(status);
  window->address_ = reinterpret_cast<void*>(window->reserved_ + (first - base));
  return window;
}

GpuWindow::~GpuWindow() {
  cuda::DevicePtr at = reserved_;
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (i < mapped_segments_) api_.mem_unmap(at, segments_[i].bytes);
    api_.mem_release(segments_[i].handle);
    at += segments_[i].bytes;
  }
  if (reserved_ != 0) api_.mem_address_free(reserved_, total_bytes());
}

GpuWindow::Status GpuWindow::retain_segments(cuda::DevicePtr first, cuda::DevicePtr end) {
  for (cuda::DevicePtr at = first; at < end;) {
    Segment segment{};
    cuda::DevicePtr base = 0;
    cuda::Rc rc = api_.mem_get_address_range(&base, &segment.bytes, at);
    if (rc != cuda::kSuccess) return failed(api_, "cuMemGetAddressRange", rc);
    rc = api_.mem_retain_allocation_handle(&segment.handle, reinterpret_cast<void*>(at));
    if (rc != cuda::kSuccess) return failed(api_, "cuMemRetainAllocationHandle", rc);
    segments_.push_back(segment);
    at = base + segment.bytes;
  }
  return {};
}

size_t GpuWindow::total_bytes() const {
  size_t total = 0;
  for (const Segment& segment : segments_) total += segment.bytes;
  return total;
}

GpuWindow::Status GpuWindow::map_segments() {
  cuda::Rc rc = api_.mem_address_reserve(&reserved_, total_bytes(), 0, 0, 0);
  if (rc != cuda::kSuccess) {
    reserved_ = 0;
    return failed(api_, "cuMemAddressReserve", rc);
  }
  cuda::DevicePtr at = reserved_;
  for (const Segment& segment : segments_) {
    rc = api_.mem_map(at, segment.bytes, 0, segment.handle, 0);
    if (rc != cuda::kSuccess) return failed(api_, "cuMemMap", rc);
    ++mapped_segments_;
    at += segment.bytes;
  }
  return {};
}

GpuWindow::Status GpuWindow::grant_access(int device) {
  int count = 0;
  cuda::Rc rc = api_.device_get_count(&count);
  if (rc != cuda::kSuccess) return failed(api_, "cuDeviceGetCount", rc);
  std::vector<cuda::MemoryAccess> access;
  for (int peer = 0; peer < count; ++peer) {
    int can = peer == device ? 1 : 0;
    if (peer != device) api_.device_can_access_peer(&can, peer, device);
    if (can != 0) access.push_back({{cuda::kLocationDevice, peer}, cuda::kAccessReadWrite});
  }
  rc = api_.mem_set_access(reserved_, total_bytes(), access.data(), access.size());
  return rc == cuda::kSuccess ? Status{} : Status(failed(api_, "cuMemSetAccess", rc));
}

}  // namespace softhca
