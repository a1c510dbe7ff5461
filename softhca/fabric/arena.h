// The mapped file of one process, and the owner's allocator of ranges in it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/result.h"
#include "softhca/fabric/shared_layout.h"

namespace softhca {

class Arena {
 public:
  static gdr::Result<Arena> create(const std::string& path);
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

  // Takes the memory behind a range now: a full /dev/shm is an error here, not a SIGBUS later.
  bool reserve(uint64_t offset, uint64_t bytes) const;
  bool reserve(const void* object, uint64_t bytes) const {
    return reserve(static_cast<uint64_t>(static_cast<const uint8_t*>(object) - base_), bytes);
  }
  // Gives the memory behind whole pages back; they read as zero afterwards.
  void discard(uint64_t offset, uint64_t bytes) const;

 private:
  Arena(int fd, uint8_t* base) : fd_(fd), base_(base) {}
  static gdr::Result<Arena> map(int fd, const std::string& path);

  int fd_;
  uint8_t* base_;
};

// First fit over [kHeap, kArenaBytes), in pages. Control path only.
class ArenaHeap {
 public:
  explicit ArenaHeap(const Arena& arena) : arena_(arena) { free_[kHeap] = kArenaBytes - kHeap; }

  // Zeroed; 0 when there is no room.
  uint64_t allocate(uint64_t bytes);
  void release(uint64_t offset, uint64_t bytes);

 private:
  const Arena& arena_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
};

}  // namespace softhca
