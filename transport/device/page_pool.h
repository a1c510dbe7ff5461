// Zeroed pages for the transport's own memory that HCAs access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

namespace gdr::transport {

// Hands out blocks of whole pages that are zero. The kernel maps several blocks at a time, and
// their registration brings the pages in: the heap's memory would have to be zeroed first, page
// fault by page fault, which takes longer than all else that a block costs. Nothing else is in the
// pages, which a registration may withhold from forked children. Pages of a block that is given
// back are given back to the kernel. Thread-safe; blocks keep their pool.
class PagePool : public std::enable_shared_from_this<PagePool> {
  struct Chunk;
  struct Blocks;

 public:
  // Gives a block back. Allocates nothing.
  class Release {
   public:
    Release() = default;
    void operator()(void* block) const { pool_->release(*blocks_, chunk_, block); }

   private:
    friend class PagePool;
    std::shared_ptr<PagePool> pool_;
    Blocks* blocks_ = nullptr;
    std::list<Chunk>::iterator chunk_;
  };
  template <class T>
  using Pointer = std::unique_ptr<T, Release>;

  static std::shared_ptr<PagePool> create() { return std::shared_ptr<PagePool>(new PagePool()); }

  // Returns a zeroed block of that many bytes, at least one, rounded up to whole pages; null
  // without memory for it. May throw std::bad_alloc, by which no memory is lost. The T is not
  // constructed: all of its bytes being zero must be one of its values.
  template <class T>
  Pointer<T> allocate(size_t bytes) {
    Release release;
    void* block = allocate(bytes, &release);
    return Pointer<T>(static_cast<T*>(block), std::move(release));
  }

 private:
  static constexpr uint32_t kBlocks = 16;  // of a chunk

  // Blocks that were mapped together. Bit i of `taken`: block i is in use.
  struct Chunk {
    std::byte* begin;
    uint32_t taken;
  };
  // Those of one size. release() reads `bytes` without the mutex.
  struct Blocks {
    explicit Blocks(size_t block_bytes) : bytes(block_bytes) {}
    const size_t bytes;  // of one block
    std::list<Chunk> with_room, full;
  };

  PagePool() = default;
  void* allocate(size_t bytes, Release* release);
  void release(Blocks& blocks, std::list<Chunk>::iterator chunk, void* block);

  std::mutex mutex_;
  std::map<size_t, Blocks> by_size_;
};

}  // namespace gdr::transport
