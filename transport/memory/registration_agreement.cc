#include "transport/memory/registration_agreement.h"

#include <algorithm>
#include <utility>

#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

GpuAllocation GpuAllocation::containing(const GpuAllocation& region, int device) {
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver || device < 0) return region;
  Result<cuda::PrimaryContext> context = cuda::PrimaryContext::retain(driver->api(), device);
  if (!context) return region;
  cuda::CurrentContext current(*context);
  cuda::DevicePtr base = 0;
  size_t bytes = 0;
  const bool known = current.status() && driver->api().mem_get_address_range(
                                             &base, &bytes, region.address) == cuda::kSuccess;
  return known ? GpuAllocation{static_cast<uintptr_t>(base), bytes} : region;
}

RegistrationAgreement::Own RegistrationAgreement::claim(const GpuAllocation& allocation,
                                                        bool relayed) {
  std::lock_guard lock(mutex_);
  std::erase_if(own_, [](const auto& known) { return known.expired(); });
  bool same_size = false;
  for (const auto& known : own_) {
    Own own = known.lock();
    if (own == nullptr) continue;
    if (own->address == allocation.address) return own;
    same_size = same_size || own->bytes == allocation.bytes;
  }
  if (!own_.empty() && !(relayed && same_size)) return nullptr;
  Own own = std::make_shared<const GpuAllocation>(allocation);
  own_.push_back(own);
  return own;
}

void RegistrationAgreement::note_own(bool staged) {
  Send send;
  uint32_t flags;
  {
    std::lock_guard lock(mutex_);
    if (announced_ && (stages_ || !staged)) return;
    stages_ = stages_ || staged;
    announced_ = send_ != nullptr;
    flags = stages_ ? wire::kMemoryStages : 0;
    send = send_;
  }
  if (send != nullptr) send(flags);
}

bool RegistrationAgreement::stages() const {
  std::lock_guard lock(mutex_);
  return stages_;
}

std::optional<bool> RegistrationAgreement::peer_stages() {
  std::unique_lock lock(mutex_);
  if (peer_ == true || final_) return peer_;
  if (Send send = send_) {
    const uint32_t flags = wire::kMemoryAsks | (stages_ ? wire::kMemoryStages : 0);
    lock.unlock();
    send(flags);
    lock.lock();
    answered_.wait_for(lock, patience_, [this] { return final_ || peer_ == true; });
  }
  final_ = true;
  return peer_;
}

void RegistrationAgreement::open(bool peer_stages, Send send) {
  std::lock_guard lock(mutex_);
  if (peer_stages) peer_ = true;
  send_ = std::move(send);
}

void RegistrationAgreement::close() {
  {
    std::lock_guard lock(mutex_);
    final_ = true;
    send_ = nullptr;
  }
  answered_.notify_all();
}

void RegistrationAgreement::on_frame(uint32_t flags) {
  Send send;
  uint32_t answer = 0;
  {
    std::lock_guard lock(mutex_);
    peer_ = peer_ == true || (flags & wire::kMemoryStages) != 0;
    if ((flags & wire::kMemoryAsks) != 0) {
      answer = wire::kMemoryAnswers | (stages_ ? wire::kMemoryStages : 0);
      send = send_;
    }
    final_ = final_ || (flags & (wire::kMemoryAsks | wire::kMemoryAnswers)) != 0;
  }
  answered_.notify_all();
  if (send != nullptr) send(answer);
}

}  // namespace gdr::transport
