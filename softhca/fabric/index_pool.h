// Allocation of indices into a table of the arena, and the objects that own the entries.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace softhca {

// Hands out the indices of one table round-robin, so that an index is reused as late as possible:
// a peer that still uses an old QPN or key should meet a free entry, not a new object. Thread-safe.
class IndexPool {
 public:
  explicit IndexPool(uint32_t count) : used_(count) {}

  // Returns a free index, or -1 when all are in use.
  int take();
  void give(uint32_t index);

 private:
  std::mutex mutex_;
  std::vector<bool> used_;
  uint32_t next_ = 0;
};

// An IndexPool and the object behind each index in use. Pollers look objects up without a lock
// while others come and go; find() returns null for an index without an object.
template <class Object>
class ObjectTable {
 public:
  explicit ObjectTable(uint32_t count)
      : indices_(count), objects_(std::make_unique<std::atomic<Object*>[]>(count)) {}

  int take() { return indices_.take(); }
  void give(uint32_t index) { indices_.give(index); }
  void publish(uint32_t index, Object* object) {
    objects_[index].store(object, std::memory_order_release);
  }
  // To be called before the object is destroyed; its index stays taken until give().
  void withdraw(uint32_t index) { objects_[index].store(nullptr); }
  Object* find(uint32_t index) const { return objects_[index].load(std::memory_order_acquire); }

 private:
  IndexPool indices_;
  std::unique_ptr<std::atomic<Object*>[]> objects_;
};

}  // namespace softhca
