// What one connection has moved, beside what its rails count (RailCounters), for any thread to
// read.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::transport {

// Only the comm's thread writes, so that a load, an addition and a store are enough: no locked
// instruction, and nothing else to wait for. All accesses are relaxed.
class ConnectionCounters {
 public:
  // ---- the comm's thread
  // Direct path: the data of a message that is complete.
  void count_bytes(uint64_t bytes) { add(bytes_, bytes); }
  // Direct path: messages or chunks beyond one for each request that completes.
  void count_further_messages(uint64_t messages) { add(further_messages_, messages); }
  // Before the request is counted as completed: a reader that takes the completions first then
  // finds no fewer flushes than are among them.
  void count_flush() { add(flushes_, 1); }

  // ---- any thread
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t further_messages() const { return further_messages_.load(std::memory_order_relaxed); }
  uint64_t flushes() const { return flushes_.load(std::memory_order_relaxed); }

 private:
  static void add(std::atomic<uint64_t>& counter, uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> further_messages_{0};
  std::atomic<uint64_t> flushes_{0};
};

}  // namespace gdr::transport
