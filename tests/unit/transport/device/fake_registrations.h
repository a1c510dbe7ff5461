// A fake of the registration verbs that pins nothing and counts registrations. It is the protection
// domain itself.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>

#include "drivers/verbs/verbs_api.h"

namespace gdr::transport {

inline constexpr size_t kPage = 4096;  // of x86-64; the cache asks the system

struct FakeRegistrations : ibv_pd {
  // Relaxed, so that they order nothing between the threads of a test.
  std::atomic<int> live{0};
  std::atomic<int> made{0};
  std::atomic<int> fail_with_errno{0};  // what registrations fail with; 0: they succeed
  // Called by the registering thread, before the outcome is decided.
  std::function<void()> while_registering;
  std::function<void(int fd)> while_registering_dmabuf;
  std::function<void()> while_deregistering;

  FakeRegistrations() : ibv_pd{} {}

  static verbs::Api api() {
    verbs::Api api;
    api.reg_mr = [](ibv_pd* pd, void* addr, size_t bytes, int) { return make(pd, addr, bytes); };
    api.reg_mr_iova2 = [](ibv_pd* pd, void* addr, size_t bytes, uint64_t, unsigned) {
      return make(pd, addr, bytes);
    };
    api.reg_dmabuf_mr = [](ibv_pd* pd, uint64_t, size_t bytes, uint64_t iova, int fd, int) {
      auto& fake = *static_cast<FakeRegistrations*>(pd);
      if (fake.while_registering_dmabuf) fake.while_registering_dmabuf(fd);
      return make(pd, reinterpret_cast<void*>(iova), bytes);
    };
    api.dereg_mr = [](ibv_mr* mr) {
      auto& fake = *static_cast<FakeRegistrations*>(mr->pd);
      *mr = {};
      if (fake.while_deregistering) fake.while_deregistering();
      delete mr;
      fake.live.fetch_sub(1, std::memory_order_relaxed);
      return 0;
    };
    return api;
  }

 private:
  static ibv_mr* make(ibv_pd* pd, void* addr, size_t bytes) {
    auto& fake = *static_cast<FakeRegistrations*>(pd);
    if (fake.while_registering) fake.while_registering();
    if (int err = fake.fail_with_errno.load(std::memory_order_relaxed); err != 0) {
      errno = err;
      return nullptr;
    }
    auto* mr = new ibv_mr{};
    mr->pd = pd;
    mr->addr = addr;
    mr->length = bytes;
    fake.live.fetch_add(1, std::memory_order_relaxed);
    fake.made.fetch_add(1, std::memory_order_relaxed);
    return mr;
  }
};

inline bool covers(const ibv_mr& mr, uintptr_t address, size_t bytes) {
  auto begin = reinterpret_cast<uintptr_t>(mr.addr);
  return begin <= address && begin + mr.length >= address + bytes;
}

}  // namespace gdr::transport
