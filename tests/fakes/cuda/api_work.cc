// The driver API of the fake: memory, streams, copies and events.
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "drivers/cuda/cuda_api.h"
#include "tests/fakes/cuda/driver.h"
#include "tests/fakes/cuda/memory.h"
#include "tests/fakes/cuda/rules.h"

namespace cuda = gdr::cuda;
using fake_cuda::device_memory;
using fake_cuda::enter;
using fake_cuda::Kind;
using fake_cuda::pinned_memory;
using fake_cuda::switches;

// Defined only in ThreadSanitizer's run-time library.
extern "C" {
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace {

// A real driver copies a pageable source of up to this size into a buffer of its own during the
// call, and waits for the end of all other copies of pageable memory.
constexpr size_t kSetAside = size_t{64} << 10;

// One side of a copy, at an address that the CPU can access.
struct Side {
  char* bytes;
  bool on_gpu;
  bool pageable;
};

Side side(cuda::DevicePtr address, size_t bytes) {
  void* view = device_memory().view("cuMemcpyAsync", address, bytes);
  if (view != nullptr) return {static_cast<char*>(view), true, false};
  auto* host = reinterpret_cast<char*>(address);
  return {host, false, !pinned_memory().contains(host, bytes)};
}

void delay() {
  switches().copies.pass();
  unsigned microseconds = switches().copy_delay_us;
  if (microseconds != 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// A GPU's memory is ordered by streams, and by what travels between processes, which
// ThreadSanitizer cannot see; host memory stays checked.
void copy(const Side& to, const Side& from, size_t bytes) {
  bool reads = from.on_gpu && AnnotateIgnoreReadsBegin != nullptr;
  bool writes = to.on_gpu && AnnotateIgnoreWritesBegin != nullptr;
  if (reads) AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  if (writes) AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  std::memmove(to.bytes, from.bytes, bytes);
  if (writes) AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  if (reads) AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void launch_copy(cuda::Stream stream, const Side& to, const Side& from, size_t bytes) {
  if (from.pageable && to.on_gpu && bytes <= kSetAside) {
    stream->enqueue([to, aside = std::vector<char>(from.bytes, from.bytes + bytes)] {
      delay();
      Side held{const_cast<char*>(aside.data()), false, true};
      copy(to, held, aside.size());
    });
    return;
  }
  stream->enqueue([to, from, bytes] {
    delay();
    copy(to, from, bytes);
  });
  if (from.pageable || to.pageable) stream->drain();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cuda::Rc cuMemAlloc_v2(cuda::DevicePtr* address, size_t bytes) {
  cuda::Rc rc = enter("cuMemAlloc", Kind::kWaiting);
  if (rc != cuda::kSuccess) return rc;
  if (bytes == 0) return cuda::kErrorInvalidValue;
  *address =
      device_memory().allocate(fake_cuda::current()->device, bytes, switches().virtual_memory);
  return *address == 0 ? cuda::kErrorOutOfMemory : cuda::kSuccess;
}

cuda::Rc cuMemFree_v2(cuda::DevicePtr address) {
  cuda::Rc rc = enter("cuMemFree", Kind::kWaiting);
  if (rc != cuda::kSuccess) return rc;
  for (int i = 0; i < fake_cuda::kDevices; ++i) fake_cuda::primary(i)->drain();
  return device_memory().free(address) ? cuda::kSuccess : cuda::kErrorInvalidValue;
}

cuda::Rc cuMemHostRegister_v2(void* address, size_t bytes, unsigned) {
  cuda::Rc rc = enter("cuMemHostRegister", Kind::kWaiting);
  if (rc != cuda::kSuccess) return rc;
  if (address == nullptr || bytes == 0) return cuda::kErrorInvalidValue;
  return pinned_memory().add(address, bytes) ? cuda::kSuccess
                                             : cuda::kErrorHostMemoryAlreadyRegistered;
}

cuda::Rc cuMemHostUnregister(void* address) {
  cuda::Rc rc = enter("cuMemHostUnregister", Kind::kWaiting);
  if (rc != cuda::kSuccess) return rc;
  return pinned_memory().remove(address) ? cuda::kSuccess : cuda::kErrorHostMemoryNotRegistered;
}

cuda::Rc cuMemHostGetDevicePointer_v2(cuda::DevicePtr* device, void* address, unsigned flags) {
  cuda::Rc rc = enter("cuMemHostGetDevicePointer", Kind::kContext);
  if (rc != cuda::kSuccess) return rc;
  if (flags != 0 || !pinned_memory().contains(address, 1)) return cuda::kErrorInvalidValue;
  *device = reinterpret_cast<cuda::DevicePtr>(address);
  return cuda::kSuccess;
}

cuda::Rc cuMemGetHandleForAddressRange(void* handle, cuda::DevicePtr address, size_t bytes,
                                       int type, unsigned long long flags) {
  cuda::Rc rc = enter("cuMemGetHandleForAddressRange", Kind::kContext);
  if (rc != cuda::kSuccess) return rc;
  if (!switches().dmabuf) return cuda::kErrorNotSupported;
  if (type != cuda::kRangeHandleDmaBufFd || flags != 0) return cuda::kErrorInvalidValue;
  int fd = device_memory().export_range(address, bytes);
  if (fd < 0) return cuda::kErrorInvalidValue;
  *static_cast<int*>(handle) = fd;
  return cuda::kSuccess;
}

cuda::Rc cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                                cuda::DevicePtr address) {
  cuda::Rc rc = enter("cuPointerGetAttributes", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  int device = device_memory().device_of(address, 1);
  bool pinned = pinned_memory().contains(reinterpret_cast<void*>(address), 1);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case cuda::kPointerMemoryType:
        *static_cast<unsigned*>(values[i]) = device >= 0 ? cuda::kMemoryTypeDevice : pinned ? 1 : 0;
        break;
      case cuda::kPointerDeviceOrdinal:
        *static_cast<int*>(values[i]) = device >= 0 ? device
                                        : pinned    ? 0
                                                    : -2;  // as in the real driver
        break;
      default:
        return cuda::kErrorInvalidValue;
    }
  }
  return cuda::kSuccess;
}

cuda::Rc cuStreamCreate(cuda::Stream* stream, unsigned flags) {
  cuda::Rc rc = enter("cuStreamCreate", Kind::kWaiting);
  if (rc != cuda::kSuccess) return rc;
  if (flags != cuda::kStreamNonBlocking) {
    fake_cuda::violation("cuStreamCreate", "a blocking stream waits for the default stream");
  }
  *stream = new CUstream_st(fake_cuda::current());
  return cuda::kSuccess;
}

cuda::Rc cuStreamDestroy_v2(cuda::Stream stream) {
  cuda::Rc rc = enter("cuStreamDestroy", Kind::kContext, stream);
  if (rc == cuda::kSuccess) delete stream;
  return rc;
}

cuda::Rc cuStreamQuery(cuda::Stream stream) {
  cuda::Rc rc = enter("cuStreamQuery", Kind::kUnsafe, stream);
  if (rc != cuda::kSuccess) return rc;
  return stream->idle() ? cuda::kSuccess : cuda::kErrorNotReady;
}

cuda::Rc cuStreamSynchronize(cuda::Stream stream) {
  cuda::Rc rc = enter("cuStreamSynchronize", Kind::kUnsafe, stream);
  if (rc != cuda::kSuccess) return rc;
  stream->drain();
  return fake_cuda::current()->error;
}

cuda::Rc cuStreamWriteValue64_v2(cuda::Stream stream, cuda::DevicePtr address, uint64_t value,
                                 unsigned flags) {
  cuda::Rc rc = enter("cuStreamWriteValue64", Kind::kContext, stream);
  if (rc != cuda::kSuccess) return rc;
  if (!switches().stream_memops) return cuda::kErrorNotSupported;
  auto* word = reinterpret_cast<uint64_t*>(address);
  if (flags != 0 || address % sizeof(uint64_t) != 0 || !pinned_memory().contains(word, 8)) {
    return cuda::kErrorInvalidValue;
  }
  stream->enqueue(
      [word, value] { std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release); });
  return cuda::kSuccess;
}

cuda::Rc cuMemcpyAsync(cuda::DevicePtr destination, cuda::DevicePtr source, size_t bytes,
                       cuda::Stream stream) {
  cuda::Rc rc = enter("cuMemcpyAsync", Kind::kContext, stream);
  if (rc != cuda::kSuccess) return rc;
  if (destination == 0 || source == 0) return cuda::kErrorInvalidValue;
  int device = fake_cuda::current()->device;
  if (!device_memory().reachable(destination, device) ||
      !device_memory().reachable(source, device)) {
    return cuda::kErrorInvalidValue;
  }
  launch_copy(stream, side(destination, bytes), side(source, bytes), bytes);
  return cuda::kSuccess;
}

cuda::Rc cuMemsetD8Async(cuda::DevicePtr address, unsigned char value, size_t bytes,
                         cuda::Stream stream) {
  cuda::Rc rc = enter("cuMemsetD8Async", Kind::kContext, stream);
  if (rc != cuda::kSuccess) return rc;
  void* view = device_memory().view("cuMemsetD8Async", address, bytes);
  if (view == nullptr) return cuda::kErrorInvalidValue;
  stream->enqueue([view, value, bytes] {
    delay();
    std::memset(view, value, bytes);
  });
  return cuda::kSuccess;
}

cuda::Rc cuEventCreate(cuda::Event* event, unsigned flags) {
  cuda::Rc rc = enter("cuEventCreate", Kind::kContext);
  if (rc != cuda::kSuccess) return rc;
  if (flags != cuda::kEventDisableTiming) return cuda::kErrorInvalidValue;
  *event = new CUevent_st{fake_cuda::current()};
  return cuda::kSuccess;
}

cuda::Rc cuEventDestroy_v2(cuda::Event event) {
  cuda::Rc rc = enter("cuEventDestroy", Kind::kContext);
  delete event;
  return rc;
}

cuda::Rc cuEventQuery(cuda::Event event) {
  cuda::Rc rc = enter("cuEventQuery", Kind::kUnsafe);
  if (rc != cuda::kSuccess) return rc;
  return *event->completed >= event->recorded ? cuda::kSuccess : cuda::kErrorNotReady;
}

cuda::Rc cuEventRecord(cuda::Event event, cuda::Stream stream) {
  cuda::Rc rc = enter("cuEventRecord", Kind::kContext, stream);
  if (rc != cuda::kSuccess) return rc;
  if (event->context != stream->context()) return cuda::kErrorInvalidHandle;
  uint64_t generation = ++event->recorded;
  stream->enqueue([completed = event->completed, generation] { *completed = generation; });
  return cuda::kSuccess;
}
}
#pragma GCC visibility pop
