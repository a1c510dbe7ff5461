// Test data that depends on the seed, the message and the position, so that a message that is late,
// repeated, shifted, exchanged with another or left from an earlier run is detected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::tools {

class Pattern {
 public:
  Pattern(uint64_t seed, uint64_t stream, uint64_t message);

  void fill(void* data, size_t bytes) const;

  // Returns the first position whose byte is wrong, or `bytes` when all are correct.
  size_t first_mismatch(const void* data, size_t bytes) const;

  uint8_t at(size_t position) const;

 private:
  uint64_t word(uint64_t index) const;
  uint64_t key_;
};

// Hashes x to 64 well-distributed bits, by the finaliser of SplitMix64.
inline uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// SplitMix64, a small generator for sizes and orders: a seed gives the same run on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ull); }
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace gdr::tools
