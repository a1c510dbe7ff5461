#include "softhca/fabric/staging_area.h"

#include <cstdio>

#include "softhca/gpu/copier.h"

namespace softhca {

bool StagingArea::ensure() {
  std::lock_guard lock(mutex_);
  ArenaHeader& header = arena_.header();
  if (tried_) return header.staging.load() != 0;
  tried_ = true;
  uint64_t offset = heap_.allocate(bytes_);
  if (offset == 0) {
    fprintf(stderr,
            "softhca: no room for %llu bytes of staging in /dev/shm; make it larger or set "
            "\"staging_bytes\" lower\n",
            static_cast<unsigned long long>(bytes_));
    return false;
  }
  free_.reserve(bytes_ / kChunkBytes);
  for (uint64_t chunk = 0; chunk < bytes_; chunk += kChunkBytes) free_.push_back(offset + chunk);
  header.staging_bytes = bytes_;
  header.staging.store(offset, std::memory_order_release);
  return true;
}

void StagingArea::pin() {
  GpuCopier* copier = GpuCopier::get();
  std::lock_guard lock(mutex_);
  uint64_t offset = arena_.header().staging.load();
  if (pinned_ || copier == nullptr || offset == 0) return;
  pinned_ = copier->pin_host(arena_.at<void>(offset), bytes_).has_value();
}

uint64_t StagingArea::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return 0;
  uint64_t chunk = free_.back();
  free_.pop_back();
  return chunk;
}

void StagingArea::give(uint64_t chunk) {
  std::lock_guard lock(mutex_);
  free_.push_back(chunk);
}

}  // namespace softhca
