#include "softhca/gpu_memory.h"

#include <cerrno>
#include <cstdio>

#include "softhca/engine.h"
#include "softhca/gpu/copier.h"
#include "softhca/process.h"
#include "softhca/staging.h"

namespace softhca {

int GpuMemory::device_of(const void* address, size_t bytes) {
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
  gdr::Status ready = GpuCopier::get()->prepare(device);
  if (!ready) {
    fprintf(stderr, "softhca: cannot use CUDA device %d: %s\n", device, ready.error().text.c_str());
    registered_.fetch_sub(bytes);
    return EIO;
  }
  process_.engine().start();
  if (ready_device_.exchange(device) < 0) pin_staging();
  return 0;
}

void GpuMemory::pin_staging() {
  if (ready_device() < 0) return;
  process_.staging().pin();
  process_.for_each_peer([](Peer& peer) { peer.pin_staging(); });
}

}  // namespace softhca
