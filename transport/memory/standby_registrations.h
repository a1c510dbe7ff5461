// What the buffers of a connection hold on its standby rails, so that it can be given back while
// NCCL has them registered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "transport/device/hca.h"

namespace gdr::transport {

// References into the registration caches of the HCAs, by the handle of their buffer and by rail.
// Thread-safe.
class StandbyRegistrations {
 public:
  // Takes over a reference to `mr`; on a rail that has been given back, releases it at once.
  void add(const void* handle, size_t rail, std::shared_ptr<HcaContext> hca, ibv_mr* mr) {
    Reference added(mr, {std::move(hca)});
    std::lock_guard lock(mutex_);
    if ((given_back_ >> rail & 1) == 0) held_[handle][rail] = std::move(added);
  }
  // The handle ends.
  void release(const void* handle) {
    decltype(held_)::node_type released;  // deregistered after the mutex is released
    std::lock_guard lock(mutex_);
    released = held_.extract(handle);
  }
  // Nothing is transferred over the rail any more. A release() waits for it: NCCL frees the memory
  // behind it, and what is registered of that must not be found any more then.
  void give_back(size_t rail) {
    std::lock_guard lock(mutex_);
    given_back_ |= 1u << rail;
    for (auto& [handle, by_rail] : held_) by_rail.erase(rail);
  }

 private:
  struct Release {
    std::shared_ptr<HcaContext> hca;
    void operator()(ibv_mr* mr) const { hca->registrations().release(mr); }
  };
  using Reference = std::unique_ptr<ibv_mr, Release>;

  std::mutex mutex_;  // guards all that follows
  std::map<const void*, std::map<size_t, Reference>> held_;
  uint32_t given_back_ = 0;  // bit per rail
};

}  // namespace gdr::transport
