// Registered memory: the plugin's own blocks, and the handles that callers get for theirs.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/memory/bounce_buffers.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// What is to be registered.
struct MemoryRegion {
  void* address;
  size_t bytes;
  bool cuda = false;   // GPU memory
  int dmabuf_fd = -1;  // -1: none given
  uint64_t dmabuf_offset = 0;
};

// What regMr returns: the registrations of one buffer on the rails of one comm.
struct MemoryHandle {
  struct RailKeys {
    uint32_t lkey = 0;
    uint32_t rkey = 0;
  };
  using Keys = std::array<RailKeys, wire::kMaxRails>;  // by the rail's index
  Keys keys{};
  bool host = true;    // the CPU may read it (inline sends)
  bool direct = true;  // the HCAs reach the memory itself, by `keys`
  // Larger messages are sent by way of `staging`.
  size_t direct_at_most = std::numeric_limits<size_t>::max();
  std::unique_ptr<Staging> staging;
  Keys staging_keys{};  // of what stands in for it
  std::vector<std::pair<std::shared_ptr<HcaContext>, ibv_mr*>> registrations;

  void add(size_t rail, const std::shared_ptr<HcaContext>& hca, ibv_mr* mr) {
    registrations.emplace_back(hca, mr);
    keys[rail] = RailKeys{mr->lkey, mr->rkey};
  }
  void add_staging(size_t rail, const std::shared_ptr<HcaContext>& hca, ibv_mr* mr) {
    registrations.emplace_back(hca, mr);
    staging_keys[rail] = RailKeys{mr->lkey, mr->rkey};
  }

  MemoryHandle() = default;
  MemoryHandle(const MemoryHandle&) = delete;
  MemoryHandle& operator=(const MemoryHandle&) = delete;
  ~MemoryHandle() {
    if (staging != nullptr) staging->finish();
    for (auto& [hca, mr] : registrations) hca->registrations().release(mr);
  }
};

// A zeroed, page-aligned T, registered on one HCA without relaxed ordering.
template <class T>
class RegisteredBlock {
 public:
  static Result<RegisteredBlock> create(const HcaContext& hca);

  T& operator*() const { return *memory_; }
  T* get() const { return memory_.get(); }
  T* operator->() const { return memory_.get(); }
  size_t offset_of(const auto& part) const {
    return reinterpret_cast<const char*>(&part) - reinterpret_cast<const char*>(memory_.get());
  }
  uint32_t lkey() const { return mr_->lkey; }
  uint32_t rkey() const { return mr_->rkey; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
  verbs::UniqueMr mr_;  // destroyed before memory_
};

// A word that an HCA writes; what it wrote before the word may be read afterwards.
inline uint64_t load_written(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

Result<verbs::UniqueMr> register_block(const HcaContext& hca, void* memory, size_t bytes);
void* allocate_pages(size_t bytes);  // zeroed; null when there is no memory

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
