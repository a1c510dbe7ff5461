// The arena of a process: a sparse file of kArenaBytes in /dev/shm, laid out as shared_layout.h
// says, which its peers map; and the owner's allocator of ranges in it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/result.h"
#include "softhca/fabric/shared_layout.h"

namespace softhca {

// A mapped arena: of this process, which allocates in it, or of a peer.
class Arena {
 public:
  // Creates and maps the file of this process; kSystem when /dev/shm is full.
  static gdr::Result<Arena> create(const std::string& path);
  // Maps the file of another process; kRemote when the file is gone or is not
  // an arena.
  static gdr::Result<Arena> open(const std::string& path);

  Arena(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  ArenaHeader& header() const { return *at<ArenaHeader>(0); }
  SharedQp& qp(uint32_t index) const { return at<SharedQp>(kQpTable)[index]; }
  SharedCq& cq(uint32_t index) const { return at<SharedCq>(kCqTable)[index]; }
  SharedMr& mr(uint32_t index) const { return at<SharedMr>(kMrTable)[index]; }
  SharedEventQueue& events(uint32_t index) const {
    return at<SharedEventQueue>(kEventTable)[index];
  }

  // Allocates the memory behind a range. Returns false when /dev/shm is full, and reports the first
  // time on stderr; without this call the first access would raise SIGBUS then.
  bool reserve(uint64_t offset, uint64_t bytes) const;
  bool reserve(const void* object, uint64_t bytes) const {
    return reserve(static_cast<uint64_t>(static_cast<const uint8_t*>(object) - base_), bytes);
  }
  // Frees the memory behind whole pages; they read as zero afterwards.
  void discard(uint64_t offset, uint64_t bytes) const;

 private:
  Arena(int fd, uint8_t* base) : fd_(fd), base_(base) {}
  static gdr::Result<Arena> map(int fd, const std::string& path);

  int fd_;
  uint8_t* base_;
};

// First-fit allocation of whole pages in [kHeap, kArenaBytes). Control path only.
class ArenaHeap {
 public:
  explicit ArenaHeap(const Arena& arena) : arena_(arena) { free_[kHeap] = kArenaBytes - kHeap; }

  // Returns the offset of zeroed memory, or 0 when there is no room.
  uint64_t allocate(uint64_t bytes);
  void release(uint64_t offset, uint64_t bytes);

 private:
  const Arena& arena_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
};

}  // namespace softhca
