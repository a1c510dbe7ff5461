// Objects that another context of this process can import by their number.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace softhca {

// Keeps no object alive. Thread-safe.
template <class Object>
class ImportTable {
 public:
  // Adds what create(number) returns under the next number, from 1.
  template <class Create>
  std::shared_ptr<Object> add(Create create) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Object> object = create(++last_);
    objects_[last_] = object;
    return object;
  }
  void put(uint32_t number, const std::shared_ptr<Object>& object) {
    std::lock_guard lock(mutex_);
    objects_[number] = object;
  }
  void remove(uint32_t number) {
    std::lock_guard lock(mutex_);
    objects_.erase(number);
  }
  // Returns null when there is no such object.
  std::shared_ptr<Object> find(uint32_t number) const {
    std::lock_guard lock(mutex_);
    auto found = objects_.find(number);
    return found == objects_.end() ? nullptr : found->second.lock();
  }
  template <class Visit>
  void for_each(Visit visit) const {
    std::lock_guard lock(mutex_);
    for (auto& [number, weak] : objects_) {
      if (std::shared_ptr<Object> object = weak.lock()) visit(*object);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, std::weak_ptr<Object>> objects_;
  uint32_t last_ = 0;
};

}  // namespace softhca
