// Registered host memory that belongs to the transport itself: the tables that a peer's HCA writes,
// and the target of flush reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/result.h"
#include "transport/device/hca.h"

namespace gdr::transport {

// A zeroed, page-aligned T in host memory, registered on one HCA for local and remote writes. PCIe
// relaxed ordering is not allowed in it: the reader of a flag word in a block must find everything
// that was written before the flag. Movable; the T does not move with it.
template <class T>
class RegisteredBlock {
 public:
  static Result<RegisteredBlock> create(const HcaContext& hca);

  T& operator*() const { return *memory_; }
  T* get() const { return memory_.get(); }
  T* operator->() const { return memory_.get(); }
  uint32_t lkey() const { return mr_->lkey; }
  uint32_t rkey() const { return mr_->rkey; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
  verbs::UniqueMr mr_;  // destroyed before memory_
};

// Loads a word of a block that an HCA may be writing. What the HCA wrote before it wrote the word
// can be read after this load (acquire).
inline uint64_t load_hca_written(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

// The parts of RegisteredBlock<T>::create that do not depend on T. allocate_pages returns zeroed
// whole pages, to be freed by std::free; null without memory. register_block fails on null.
void* allocate_pages(size_t bytes);
Result<verbs::UniqueMr> register_block(const HcaContext& hca, void* memory, size_t bytes);

template <class T>
Result<RegisteredBlock<T>> RegisteredBlock<T>::create(const HcaContext& hca) {
  RegisteredBlock block;
  block.memory_.reset(static_cast<T*>(allocate_pages(sizeof(T))));
  Result<verbs::UniqueMr> mr = register_block(hca, block.memory_.get(), sizeof(T));
  if (!mr) return forward_error(mr);
  block.mr_ = std::move(*mr);
  return block;
}

}  // namespace gdr::transport
