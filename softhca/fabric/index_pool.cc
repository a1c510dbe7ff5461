#include "softhca/fabric/index_pool.h"

namespace softhca {

int IndexPool::take() {
  std::lock_guard lock(mutex_);
  for (size_t tried = 0; tried < used_.size(); ++tried) {
    uint32_t index = next_;
    next_ = (next_ + 1) % static_cast<uint32_t>(used_.size());
    if (used_[index]) continue;
    used_[index] = true;
    return static_cast<int>(index);
  }
  return -1;
}

void IndexPool::give(uint32_t index) {
  std::lock_guard lock(mutex_);
  used_[index] = false;
}

}  // namespace softhca
