#include "softhca/gpu/lane.h"

#include <utility>

#include "softhca/gpu/driver_scope.h"

namespace softhca {

namespace cuda = gdr::cuda;

gdr::Result<std::unique_ptr<Lane>> Lane::create(const LaneResources& resources,
                                                GpuCompletion wanted) {
  std::unique_ptr<Lane> lane(new Lane(resources));
  cuda::Rc rc = resources.api->stream_create(&lane->stream_, cuda::kStreamNonBlocking);
  if (rc != cuda::kSuccess) {
    return tl::unexpected(lane->describe("cuStreamCreate", rc));
  }
  // A driver without stream memory operations fails the call itself: the probe need not run.
  bool refused = wanted == GpuCompletion::kStreamWrite && lane->mark(0) != cuda::kSuccess;
  if (wanted == GpuCompletion::kEvent || refused) {
    gdr::Status made = lane->make_events();
    if (!made) return gdr::forward_error(made);
  }
  return lane;
}

Lane::~Lane() {
  for (cuda::Event event : events_) resources_.api->event_destroy(event);
  if (stream_ != nullptr) resources_.api->stream_destroy(stream_);
}

gdr::Status Lane::make_events() {
  events_.reserve(kEvents);
  while (events_.size() < kEvents) {
    cuda::Event event = nullptr;
    cuda::Rc rc = resources_.api->event_create(&event, cuda::kEventDisableTiming);
    if (rc != cuda::kSuccess) return tl::unexpected(describe("cuEventCreate", rc));
    events_.push_back(event);
  }
  completion_ = GpuCompletion::kEvent;
  return {};
}

gdr::Result<uint64_t> Lane::copy(void* dst, const void* src, size_t bytes) {
  std::lock_guard<std::mutex> lock(launch_);
  if (failed_.load(std::memory_order_relaxed)) return tl::unexpected(condemned_);
  ContextScope scope(*resources_.api, resources_.context);
  if (scope.rc() != cuda::kSuccess) return tl::unexpected(describe("context", scope.rc()));
  if (bytes != 0) {
    cuda::Rc rc =
        resources_.api->memcpy_async(reinterpret_cast<cuda::DevicePtr>(dst),
                                     reinterpret_cast<cuda::DevicePtr>(src), bytes, stream_);
    // A refused address fails this copy only: other QPs continue to use the lane.
    if (rc != cuda::kSuccess) return tl::unexpected(describe("cuMemcpyAsync", rc));
  }
  uint64_t sequence = issued_ + 1;
  cuda::Rc rc = mark(sequence);
  if (rc != cuda::kSuccess) return tl::unexpected(condemn("completion of a copy", rc));
  issued_ = sequence;
  return sequence;
}

cuda::Rc Lane::mark(uint64_t sequence) {
  if (completion_ == GpuCompletion::kEvent) {
    return resources_.api->event_record(events_[sequence % kEvents], stream_);
  }
  return resources_.api->stream_write_value64(stream_, resources_.done_word_on_gpu, sequence,
                                              cuda::kStreamWriteValueDefault);
}

bool Lane::done(uint64_t sequence) {
  if (completion_ == GpuCompletion::kEvent) return event_done(sequence);
  return std::atomic_ref<uint64_t>(*resources_.done_word).load(std::memory_order_acquire) >=
         sequence;
}

bool Lane::event_done(uint64_t sequence) {
  uint64_t seen = seen_.load(std::memory_order_acquire);
  if (seen >= sequence) return true;
  if (failed_.load(std::memory_order_relaxed)) return false;
  ContextScope scope(*resources_.api, resources_.context);
  // If a later copy has recorded the event again, its completion implies that of this copy.
  if (scope.rc() != cuda::kSuccess ||
      resources_.api->event_query(events_[sequence % kEvents]) != cuda::kSuccess) {
    return false;
  }
  while (seen < sequence &&
         !seen_.compare_exchange_weak(seen, sequence, std::memory_order_acq_rel)) {
  }
  return true;
}

std::optional<gdr::Error> Lane::failure() {
  std::lock_guard<std::mutex> lock(launch_);
  if (failed_.load(std::memory_order_relaxed)) return condemned_;
  ContextScope scope(*resources_.api, resources_.context);
  cuda::Rc rc = scope.rc();
  if (rc == cuda::kSuccess) rc = resources_.api->stream_query(stream_);
  if (rc == cuda::kSuccess || rc == cuda::kErrorNotReady) return std::nullopt;
  return condemn("stream", rc);
}

gdr::Error Lane::describe(const char* what, cuda::Rc rc) const {
  return gdr::Error{gdr::Code::kSystem, std::string(what) +
                                            " failed: " + cuda::error_name(*resources_.api, rc) +
                                            " on CUDA device " + std::to_string(resources_.device)};
}

gdr::Error Lane::condemn(const char* what, cuda::Rc rc) {
  condemned_ = describe(what, rc);
  failed_.store(true, std::memory_order_release);
  return condemned_;
}

}  // namespace softhca
