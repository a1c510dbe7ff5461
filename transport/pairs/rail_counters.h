// What a connection has moved over each of its rails, for any thread to read.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::transport {

// Of one rail of one connection. The comm's thread writes the first two, the recovery the others;
// all accesses are relaxed, as no other data depends on them.
struct RailCounters {
  std::atomic<uint64_t> bytes{0};    // of the data, at the sender acknowledged, else received
  std::atomic<uint64_t> chunks{0};   // writes with immediate: messages, or parts of them
  std::atomic<uint64_t> losses{0};   // of queue pairs
  std::atomic<uint64_t> returns{0};  // of queue pairs to use, after a loss

  // Only one thread calls it, so that no atomic increment is needed.
  [[gnu::always_inline]] void count(uint64_t moved) {
    bytes.store(bytes.load(std::memory_order_relaxed) + moved, std::memory_order_relaxed);
    chunks.store(chunks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

}  // namespace gdr::transport
