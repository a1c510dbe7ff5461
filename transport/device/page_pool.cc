#include "transport/device/page_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace gdr::transport {

void* PagePool::allocate(size_t bytes, Release* release) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t chunk_bytes;
  if (__builtin_mul_overflow((bytes - 1) / page + 1, kBlocks * page, &chunk_bytes)) return nullptr;
  bytes = chunk_bytes / kBlocks;
  std::lock_guard lock(mutex_);
  Blocks& blocks = by_size_.try_emplace(bytes, bytes).first->second;
  if (blocks.with_room.empty()) {
    std::list<Chunk> made(1);  // first, so that a mapping is never lost
    void* begin =
        mmap(nullptr, chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) return nullptr;
    made.front() = {static_cast<std::byte*>(begin), 0};
    blocks.with_room.splice(blocks.with_room.begin(), made);
  }
  const auto chunk = blocks.with_room.begin();
  const auto free = static_cast<uint32_t>(std::countr_one(chunk->taken));
  chunk->taken |= 1u << free;
  if (chunk->taken == (1u << kBlocks) - 1) {
    blocks.full.splice(blocks.full.begin(), blocks.with_room, chunk);
  }
  release->pool_ = shared_from_this();
  release->blocks_ = &blocks;
  release->chunk_ = chunk;
  return chunk->begin + free * bytes;
}

void PagePool::release(Blocks& blocks, std::list<Chunk>::iterator chunk, void* block) {
  // Before it can be handed out again. The kernel refuses that for locked pages (mlockall: EINVAL).
  // A forked child does not have the pages where they were withheld from it (ENOMEM): it may give a
  // block back, but must not allocate from its parent's pool.
  const bool locked = madvise(block, blocks.bytes, MADV_DONTNEED) != 0 && errno == EINVAL;
  if (locked) std::memset(block, 0, blocks.bytes);
  const auto index = static_cast<size_t>(static_cast<std::byte*>(block) - chunk->begin);
  std::lock_guard lock(mutex_);
  if (chunk->taken == (1u << kBlocks) - 1) {
    blocks.with_room.splice(blocks.with_room.begin(), blocks.full, chunk);
  }
  chunk->taken &= ~(1u << index / blocks.bytes);
  if (chunk->taken != 0) return;
  munmap(chunk->begin, kBlocks * blocks.bytes);
  blocks.with_room.erase(chunk);
}

}  // namespace gdr::transport
