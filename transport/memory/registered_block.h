// Registered host memory that belongs to the transport itself: the tables that a peer's HCA writes,
// and the target of flush reads.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/memory/system_facts.h"

namespace gdr::transport {

// Unmaps pages.
struct UnmapPages {
  void operator()(void* pages) const { munmap(pages, bytes); }
  size_t bytes = 0;
};
template <class T>
using Pages = std::unique_ptr<T, UnmapPages>;

// Maps zeroed pages of their own for that many bytes, at least one; null without memory. Nothing
// else is in the pages, which a registration may withhold from forked children. The T is not
// constructed: all of its bytes being zero must be one of its values. The heap's memory would have
// to be zeroed first, page fault by page fault, which the registration does anyway.
template <class T>
Pages<T> map_pages(size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return Pages<T>(pages == MAP_FAILED ? nullptr : static_cast<T*>(pages), {bytes});
}

// Loads a word of a block that an HCA may be writing. What the HCA wrote before it wrote the word
// can be read after this load (acquire).
inline uint64_t load_hca_written(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

// Registers a block on one HCA for local and remote writes. PCIe relaxed ordering is not allowed in
// it: the reader of a flag word in a block must find everything that was written before the flag.
// Fails on null.
inline Result<verbs::UniqueMr> register_block(const HcaContext& hca, void* memory, size_t bytes) {
  if (memory == nullptr) return fail_errno(Code::kSystem, "out of memory", ENOMEM);
  constexpr int kOwnAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  ibv_mr* mr = hca.api().reg_mr(hca.pd(), memory, bytes, kOwnAccess);
  if (mr == nullptr) {
    const int err = errno;
    return fail_making(hca, "registering the transport's own memory on " + hca.name() + " failed",
                       err);
  }
  return verbs::UniqueMr(mr, {&hca.api()});
}

}  // namespace gdr::transport
