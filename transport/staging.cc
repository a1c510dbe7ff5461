#include "transport/staging.h"

#include <string>

#include "transport/gpu/cuda_driver.h"

namespace gdr {

Status StandIns::reserve(size_t bytes) {
  size_t taken = taken_->load();
  while (bytes <= limit_ && taken <= limit_ - bytes) {
    if (taken_->compare_exchange_weak(taken, taken + bytes)) return {};
  }
  return fail(Code::kSystem, "staging " + std::to_string(bytes) + " bytes would take more than " +
                                 std::to_string(limit_ >> 20) +
                                 " MiB of page-locked host memory in this process "
                                 "(GDR_NCCL_STAGING_MIB)");
}

Result<std::shared_ptr<const StandIn>> StandIns::get(int device, uintptr_t address, size_t bytes) {
  const Result<gpu::CudaDriver>& driver = gpu::CudaDriver::shared();
  if (!driver) return tl::unexpected(driver.error());
  std::lock_guard lock(mutex_);
  std::weak_ptr<const StandIn>& known = stand_ins_[{address, bytes}];
  if (std::shared_ptr<const StandIn> stand_in = known.lock()) {
    if (stand_in->device == device) return stand_in;
  }
  if (Status status = reserve(bytes); !status) return forward_error(status);
  auto give_back = [taken = taken_, bytes](const StandIn* stand_in) {
    delete stand_in;
    taken->fetch_sub(bytes);
  };
  std::shared_ptr<StandIn> stand_in(new StandIn{address, device, nullptr}, give_back);
  Result<std::unique_ptr<gpu::PinnedMemory>> memory =
      gpu::PinnedMemory::create(*driver, device, bytes);
  if (!memory) return forward_error(memory);
  stand_in->memory = std::move(*memory);
  known = stand_in;
  std::erase_if(stand_ins_, [](const auto& entry) { return entry.second.expired(); });
  return stand_in;
}

Result<std::shared_ptr<gpu::CopyStream>> CopyStreams::get(int device) {
  const Result<gpu::CudaDriver>& driver = gpu::CudaDriver::shared();
  if (!driver) return tl::unexpected(driver.error());
  std::lock_guard lock(mutex_);
  std::shared_ptr<gpu::CopyStream>& stream = streams_[device];
  if (stream != nullptr) return stream;
  Result<std::shared_ptr<gpu::CopyStream>> created = gpu::CopyStream::create(*driver, device);
  if (!created) return created;
  return stream = std::move(*created);
}

}  // namespace gdr
