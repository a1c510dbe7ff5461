#include "softhca/fabric/gpu_memory.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include "softhca/gpu/copier.h"

namespace softhca {

int GpuMemory::device_of(const void* address, size_t bytes) const {
  GpuCopier* copier = GpuCopier::get();
  return copier == nullptr || bytes == 0 ? -1 : copier->device_of(address, bytes);
}

int GpuMemory::attach(int device, uint64_t bytes) {
  uint64_t limit = process_.config().gpu.bar1_bytes;
  uint64_t before = registered_.fetch_add(bytes);
  if (limit != 0 && before + bytes > limit) {
    registered_.fetch_sub(bytes);
    return ENOMEM;
  }
  GpuCopier::get()->set_own_context(process_.config().gpu.own_context);
  gdr::Status ready = GpuCopier::get()->prepare(device);
  if (!ready) {
    fprintf(stderr, "softhca: cannot use CUDA device %d: %s\n", device, ready.error().text.c_str());
    registered_.fetch_sub(bytes);
    return EIO;
  }
  if (ready_device_.exchange(device) < 0) pin_staging();
  return 0;
}

std::unique_ptr<GpuWindow> GpuMemory::open_window(int device, void* address, uint64_t bytes) const {
  auto window = GpuCopier::get()->open_window(device, address, bytes);
  if (window) return std::move(*window);
  fprintf(stderr, "softhca: cannot map %llu bytes of CUDA device %d for its peers: %s\n",
          static_cast<unsigned long long>(bytes), device, window.error().text.c_str());
  return nullptr;
}

void GpuMemory::pin_staging() {
  if (ready_device() < 0) return;
  process_.staging().pin();
  process_.for_each_peer([](Peer& peer) { peer.pin_staging(); });
}

}  // namespace softhca
