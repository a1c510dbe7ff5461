#include "transport/memory/copy_stream.h"

#include <string>
#include <utility>

namespace gdr::transport {

Result<std::shared_ptr<CopyStream>> CopyStream::create(const cuda::CudaDriver& driver, int device) {
  Result<cuda::PrimaryContext> context = cuda::PrimaryContext::retain(driver.api(), device);
  if (!context) return forward_error(context);
  std::shared_ptr<CopyStream> stream(new CopyStream(std::move(*context)));
  cuda::CurrentContext current(stream->context_);
  if (!current.status()) return tl::unexpected(current.status().error());
  cuda::Rc rc = driver.api().stream_create(&stream->stream_, cuda::kStreamNonBlocking);
  if (rc != cuda::kSuccess) return stream->failed("cuStreamCreate", rc);
  for (cuda::Event& event : stream->events_) {
    rc = driver.api().event_create(&event, cuda::kEventDisableTiming);
    if (rc != cuda::kSuccess) return stream->failed("cuEventCreate", rc);
  }
  return stream;
}

CopyStream::~CopyStream() {
  cuda::CurrentContext current(context_);
  for (cuda::Event event : events_) {
    if (event != nullptr) context_.api().event_destroy(event);
  }
  if (stream_ != nullptr) context_.api().stream_destroy(stream_);
}

Result<uint64_t> CopyStream::copy(void* destination, const void* source, size_t bytes) {
  cuda::CurrentContext current(context_);
  if (!current.status()) return tl::unexpected(current.status().error());
  cuda::Rc rc =
      context_.api().memcpy_async(reinterpret_cast<cuda::DevicePtr>(destination),
                                  reinterpret_cast<cuda::DevicePtr>(source), bytes, stream_);
  if (rc != cuda::kSuccess) return failed("cuMemcpyAsync", rc);
  uint64_t ticket = launched_ + 1;
  rc = context_.api().event_record(events_[ticket % kEvents], stream_);
  if (rc != cuda::kSuccess) return failed("cuEventRecord", rc);
  return launched_ = ticket;
}

Result<bool> CopyStream::done(uint64_t ticket) {
  if (ticket <= done_) return true;
  cuda::CurrentContext current(context_);
  if (!current.status()) return tl::unexpected(current.status().error());
  cuda::Rc rc = context_.api().event_query(events_[ticket % kEvents]);
  if (rc == cuda::kErrorNotReady) return false;
  if (rc != cuda::kSuccess) return failed("a copy between GPU and host memory", rc);
  done_ = ticket;
  return true;
}

void CopyStream::drain() {
  cuda::CurrentContext current(context_);
  if (current.status()) context_.api().stream_synchronize(stream_);
}

tl::unexpected<Error> CopyStream::failed(const char* call, cuda::Rc rc) const {
  tl::unexpected<Error> error = cuda::call_failed(context_.api(), call, rc);
  error.value().text += " on CUDA device " + std::to_string(context_.device());
  return error;
}

Result<std::shared_ptr<CopyStream>> CopyStreams::get(int device) {
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver) return tl::unexpected(driver.error());
  std::lock_guard lock(mutex_);
  std::shared_ptr<CopyStream>& stream = streams_[device];
  if (stream != nullptr) return stream;
  Result<std::shared_ptr<CopyStream>> created = CopyStream::create(*driver, device);
  if (!created) return created;
  return stream = std::move(*created);
}

}  // namespace gdr::transport
