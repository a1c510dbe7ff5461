// The states that were visited, by fingerprint: 12 bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gdr::model {

// A hash table with open addressing. Fingerprints are hashes already.
class FingerprintMap {
 public:
  // Returns the number that the fingerprint has, and whether it is new: it then has `number`.
  std::pair<uint32_t, bool> insert(uint64_t fingerprint, uint32_t number) {
    if (fingerprint == kFree) fingerprint = 1;
    if (size_ * 4 >= fingerprints_.size() * 3) grow();
    const size_t at = find(fingerprint);
    if (fingerprints_[at] == fingerprint) return {numbers_[at], false};
    fingerprints_[at] = fingerprint;
    numbers_[at] = number;
    ++size_;
    return {number, true};
  }

 private:
  static constexpr uint64_t kFree = 0;

  size_t find(uint64_t fingerprint) const {
    const size_t mask = fingerprints_.size() - 1;
    size_t at = fingerprint & mask;
    while (fingerprints_[at] != kFree && fingerprints_[at] != fingerprint) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    FingerprintMap larger(fingerprints_.size() * 2);
    for (size_t i = 0; i < fingerprints_.size(); ++i) {
      if (fingerprints_[i] != kFree) larger.insert(fingerprints_[i], numbers_[i]);
    }
    *this = std::move(larger);
  }

  explicit FingerprintMap(size_t capacity) : fingerprints_(capacity), numbers_(capacity) {}

  std::vector<uint64_t> fingerprints_;
  std::vector<uint32_t> numbers_;
  size_t size_ = 0;

 public:
  FingerprintMap() : FingerprintMap(size_t{1} << 16) {}
};

}  // namespace gdr::model
