// Random numbers that are the same on every platform, unlike the distributions of the standard
// library.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace gdr::topology::nccl {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  // Returns a number from 0 to `sides` - 1.
  int roll(int sides) { return static_cast<int>(engine_() % static_cast<uint64_t>(sides)); }
  bool chance(int percent) { return roll(100) < percent; }
  template <class Value>
  Value one_of(const std::vector<Value>& values) {
    return values[static_cast<size_t>(roll(static_cast<int>(values.size())))];
  }
  template <class Value>
  void shuffle(std::vector<Value>* values) {
    for (size_t last = values->size(); last > 1; --last) {
      std::swap((*values)[last - 1], (*values)[static_cast<size_t>(roll(static_cast<int>(last)))]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gdr::topology::nccl
